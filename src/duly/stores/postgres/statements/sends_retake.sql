-- Take over the key of a message whose window is over, for a new one, unless the old one still
-- has to be sent. No row back: it has, or another caller was quicker.
-- params: scope, digest, before (the token that was read), holder (the id of the old message),
--         token, ttl, now, wait
-- columns: digest
WITH {moment}
UPDATE {claims} AS claim
   SET token = :token::bytea, epoch = claim.epoch + 1, first_seen = moment.now,
       expires_at = moment.now + :ttl::bigint * interval '1 microsecond'
  FROM moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea
   AND claim.token = :before::bytea AND claim.expires_at <= moment.now
   AND NOT EXISTS (SELECT FROM {outbox} AS message
                    WHERE message.id = :holder::uuid AND message.state IN ('ready', 'leased'))
RETURNING claim.digest
