-- All effects of many jobs.
-- params: each (JSON: scope), digest[] (32 bytes for each job, end to end)
-- columns: as effects_of
SELECT digest, name, state, effect.key AS key, result
  FROM json_each(:each) AS wanted
  JOIN {effects} AS effect ON scope = json_extract(wanted.value, '$[0]')
                          AND digest = substr(:digest, 1 + 32 * wanted.key, 32)
 ORDER BY name
