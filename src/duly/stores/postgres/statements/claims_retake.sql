-- Take over a claim that has expired, or whose lease has run out. No row back: another caller was
-- quicker, or it was pruned. The epoch grows; a takeover keeps the time the key was first seen.
-- params: scope, digest, fingerprint, ttl, state, token, lease, now, wait
-- columns: digest, epoch, first_seen
WITH {moment}
UPDATE {claims} AS claim
   SET state = :state::text, token = :token::bytea, epoch = claim.epoch + 1,
       fingerprint = :fingerprint::bytea, result = NULL,
       first_seen = CASE claim.state WHEN 'held' THEN claim.first_seen ELSE moment.now END,
       expires_at = moment.now + :ttl::bigint * interval '1 microsecond',
       lease_until = moment.now + :lease::bigint * interval '1 microsecond'
  FROM moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea
   AND CASE claim.state WHEN 'held' THEN claim.lease_until <= moment.now
                        ELSE claim.expires_at <= moment.now END
RETURNING claim.digest, claim.epoch,
          (extract(epoch FROM claim.first_seen) * 1000000)::bigint AS first_seen
