-- Read the claim that guards the key of an enqueue: the token is the id of the job it led to.
-- params: scope, digest, now
-- columns: token, expired
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT token, coalesce(expires_at <= moment.now, false) AS expired
  FROM {claims}, moment
 WHERE scope = :scope::text AND digest = :digest::bytea
