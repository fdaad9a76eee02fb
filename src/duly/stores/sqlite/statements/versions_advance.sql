-- Record a version if it is later than any applied. No row back: it is not, or the resource's
-- versions are of another kind.
-- params: scope, digest, kind, version, tie (whether an equal version counts)
-- columns: kind
INSERT INTO {versions} AS applied (scope, digest, kind, version)
VALUES (:scope, :digest, :kind, :version)
    ON CONFLICT (scope, digest) DO UPDATE
   SET version = excluded.version
 WHERE applied.kind = excluded.kind
   AND (applied.version < excluded.version
        OR (applied.version = excluded.version AND :tie))
RETURNING kind
