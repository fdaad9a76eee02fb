-- Read what kind of versions a resource has.
-- params: scope, digest
-- columns: kind
SELECT kind FROM {versions} WHERE scope = :scope::text AND digest = :digest::bytea
