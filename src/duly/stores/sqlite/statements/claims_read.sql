-- Read a claim as it stands now.
-- params: scope, digest, token, now
-- columns: digest, epoch, first_seen, fingerprint, result, mine (the caller's own token), held,
--          free (expired, or its lease has run out), lease_left (microseconds, null unless held)
SELECT digest, epoch, first_seen, fingerprint, result,
       token IS :token AS mine,
       state = 'held' AS held,
       CASE state WHEN 'held' THEN lease_until <= :now
                  ELSE coalesce(expires_at <= :now, 0) END AS free,
       CASE state WHEN 'held' THEN lease_until - :now END AS lease_left
  FROM {claims}
 WHERE scope = :scope AND digest = :digest
