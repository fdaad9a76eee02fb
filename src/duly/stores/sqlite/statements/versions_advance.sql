-- Record a version if it is later than any applied. No row back: it is not, or the resource's
-- versions are of another kind.
-- params: scope, digest, kind, version, tie (whether an equal version counts), token (of this
--         call: a rerun after a lost reply finds its own version applied, and counts it)
-- columns: kind
INSERT INTO {versions} AS applied (scope, digest, kind, version, token)
VALUES (:scope, :digest, :kind, :version, :token)
    ON CONFLICT (scope, digest) DO UPDATE
   SET version = excluded.version, token = excluded.token
 WHERE applied.kind = excluded.kind
   AND (applied.version < excluded.version
        OR (applied.version = excluded.version
            AND (:tie OR applied.token = excluded.token)))
RETURNING kind
