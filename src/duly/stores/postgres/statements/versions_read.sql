-- Read the latest version of a resource, what kind it is, and which call applied it.
-- params: scope, digest
-- columns: kind, version, token
SELECT kind, version, token FROM {versions} WHERE scope = :scope::text AND digest = :digest::bytea
