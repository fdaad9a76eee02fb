-- Record a version if it is later than any applied. No row back: it is not, or the resource's
-- versions are of another kind.
-- params: scope, digest, kind, version, tie (whether an equal version counts), wait, now
-- columns: kind
WITH {moment}
INSERT INTO {versions} AS applied (scope, digest, kind, version)
SELECT :scope::text, :digest::bytea, :kind::text, :version::bytea FROM moment
    ON CONFLICT (scope, digest) DO UPDATE
   SET version = excluded.version
 WHERE applied.kind = excluded.kind
   AND (applied.version < excluded.version
        OR (applied.version = excluded.version AND :tie::boolean))
RETURNING kind
