-- End a lease: the work is done, its result is kept, the claim is remembered from now on.
-- No row back: the lease was lost, or this very mark was committed before. The wall clock is not
-- asked: while nobody newer has taken the lease, its holder may still finish.
-- params: scope, digest, token, epoch, result, ttl, now
-- columns: epoch
UPDATE {claims}
   SET state = 'done', result = :result, lease_until = NULL, expires_at = :now + :ttl
 WHERE scope = :scope AND digest = :digest
   AND state = 'held' AND token = :token AND epoch = :epoch
RETURNING epoch
