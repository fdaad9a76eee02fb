-- Read a claim as it stands now, without locking it.
-- params: scope, digest, token, now
-- columns: digest, epoch, first_seen, fingerprint, result, mine (the caller's own token), held,
--          free (expired, or its lease has run out), lease_left (microseconds, null unless held)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT digest, epoch, (extract(epoch FROM first_seen) * 1000000)::bigint AS first_seen,
       fingerprint, result,
       token IS NOT DISTINCT FROM :token::bytea AS mine,
       state = 'held' AS held,
       CASE state WHEN 'held' THEN lease_until <= moment.now
                  ELSE coalesce(expires_at <= moment.now, false) END AS free,
       CASE state WHEN 'held'
            THEN (extract(epoch FROM lease_until - moment.now) * 1000000)::bigint
            END AS lease_left
  FROM {claims}, moment
 WHERE scope = :scope::text AND digest = :digest::bytea
