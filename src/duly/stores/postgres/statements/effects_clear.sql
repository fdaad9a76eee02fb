-- An operator says that an effect of unknown outcome did not happen: the next run makes the call.
-- No row back: there is no such effect.
-- params: scope, digest, name
-- columns: name
DELETE FROM {effects}
 WHERE scope = :scope::text AND digest = :digest::bytea AND name = :name::text AND state <> 'done'
RETURNING name
