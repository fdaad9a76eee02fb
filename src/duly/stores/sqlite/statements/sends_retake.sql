-- Take over the key of a message whose window is over, for a new one, unless the old one still
-- has to be sent. No row back: it has, or another caller was quicker.
-- params: scope, digest, before (the token that was read), holder (the id of the old message),
--         token, ttl, now
-- columns: digest
UPDATE {claims}
   SET token = :token, epoch = epoch + 1, first_seen = :now, expires_at = :now + :ttl
 WHERE scope = :scope AND digest = :digest
   AND token = :before AND expires_at <= :now
   AND NOT EXISTS (SELECT 1 FROM {outbox} AS message
                    WHERE message.id = :holder AND message.state IN ('ready', 'leased'))
RETURNING digest
