-- Read many claims as they stand now.
-- params: each (JSON: scope), digest[] (32 bytes for each key, end to end), token, now
-- columns: as claims_read
SELECT digest, epoch, first_seen, fingerprint, result,
       token IS :token AS mine,
       state = 'held' AS held,
       CASE state WHEN 'held' THEN lease_until <= :now
                  ELSE coalesce(expires_at <= :now, 0) END AS free,
       CASE state WHEN 'held' THEN lease_until - :now END AS lease_left
  FROM json_each(:each) AS wanted
  JOIN {claims} ON scope = json_extract(wanted.value, '$[0]')
               AND digest = substr(:digest, 1 + 32 * wanted.key, 32)
