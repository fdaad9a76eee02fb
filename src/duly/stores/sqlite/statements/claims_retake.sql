-- Take over a claim that has expired, or whose lease has run out. No row back: another caller was
-- quicker, or it was pruned. The epoch grows; a takeover keeps the time the key was first seen.
-- params: scope, digest, fingerprint, ttl, state, token, lease, now
-- columns: digest, epoch, first_seen
UPDATE {claims}
   SET state = :state, token = :token, epoch = epoch + 1,
       fingerprint = :fingerprint, result = NULL,
       first_seen = CASE state WHEN 'held' THEN first_seen ELSE :now END,
       expires_at = :now + :ttl,
       lease_until = :now + :lease
 WHERE scope = :scope AND digest = :digest
   AND CASE state WHEN 'held' THEN lease_until <= :now ELSE expires_at <= :now END
RETURNING digest, epoch, first_seen
