-- Extend a lease that is still the newest. No row back: it was lost.
-- params: scope, digest, token, epoch, lease, now, wait
-- columns: epoch
WITH {moment}
UPDATE {claims} AS claim
   SET lease_until = moment.now + :lease::bigint * interval '1 microsecond'
  FROM moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea
   AND claim.state = 'held' AND claim.token = :token::bytea AND claim.epoch = :epoch::bigint
RETURNING claim.epoch
