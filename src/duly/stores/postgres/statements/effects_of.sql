-- All effects of a job.
-- params: scope, digest
-- columns: digest, name, state, key, result
SELECT digest, name, state, key, result
  FROM {effects}
 WHERE scope = :scope::text AND digest = :digest::bytea
 ORDER BY name
