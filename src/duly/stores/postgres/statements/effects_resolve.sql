-- An operator says that an effect of unknown outcome happened, or gives the result that could not
-- be kept (it is empty then). No row back: there is no such effect.
-- params: scope, digest, name, result, now
-- columns: name
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {effects} AS effect
   SET state = 'done', result = :result::bytea, at = moment.now
  FROM moment
 WHERE effect.scope = :scope::text AND effect.digest = :digest::bytea
   AND effect.name = :name::text
   AND (effect.state <> 'done' OR octet_length(effect.result) = 0)
RETURNING effect.name
