-- All effects of many jobs.
-- params: scope[], digest[]
-- columns: as effects_of
SELECT digest, name, state, key, result
  FROM unnest(:scope::text[], :digest::bytea[]) AS wanted (scope, digest)
  JOIN {effects} USING (scope, digest)
 ORDER BY name
