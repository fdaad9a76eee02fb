-- Extend a lease that is still the newest. No row back: it was lost.
-- params: scope, digest, token, epoch, lease, now
-- columns: epoch
UPDATE {claims}
   SET lease_until = :now + :lease
 WHERE scope = :scope AND digest = :digest
   AND state = 'held' AND token = :token AND epoch = :epoch
RETURNING epoch
