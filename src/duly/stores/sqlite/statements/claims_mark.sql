-- End a lease: the work is done, its result is kept, and the claim is remembered from now on. No
-- row back: the lease was lost, or this very mark was committed before. The clock is not asked:
-- until another caller takes the lease over, its holder may still finish.
-- params: scope, digest, token, epoch, result, ttl, now
-- columns: epoch
UPDATE {claims}
   SET state = 'done', result = :result, lease_until = NULL, expires_at = :now + :ttl
 WHERE scope = :scope AND digest = :digest
   AND state = 'held' AND token = :token AND epoch = :epoch
RETURNING epoch
