-- Record a version if it is later than any applied. No row back: it is not, or the resource's
-- versions are of another kind.
-- params: scope, digest, kind, version, tie (whether an equal version counts), token (of this
--         call: a rerun after a lost reply finds its own version applied, and counts it), wait, now
-- columns: kind
WITH {moment}
INSERT INTO {versions} AS applied (scope, digest, kind, version, token)
SELECT :scope::text, :digest::bytea, :kind::text, :version::bytea, :token::bytea FROM moment
    ON CONFLICT (scope, digest) DO UPDATE
   SET version = excluded.version, token = excluded.token
 WHERE applied.kind = excluded.kind
   AND (applied.version < excluded.version
        OR (applied.version = excluded.version
            AND (:tie::boolean OR applied.token = excluded.token)))
RETURNING kind
