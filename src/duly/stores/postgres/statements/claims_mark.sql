-- End a lease: the work is done, its result is kept, and the claim is remembered from now on. No
-- row back: the lease was lost, or this very mark was committed before. The clock is not asked:
-- until another caller takes the lease over, its holder may still finish.
-- params: scope, digest, token, epoch, result, ttl, now, wait
-- columns: epoch
WITH {moment}
UPDATE {claims} AS claim
   SET state = 'done', result = :result::bytea, lease_until = NULL,
       expires_at = moment.now + :ttl::bigint * interval '1 microsecond'
  FROM moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea
   AND claim.state = 'held' AND claim.token = :token::bytea AND claim.epoch = :epoch::bigint
RETURNING claim.epoch
