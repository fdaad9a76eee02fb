-- The conflicts that were recorded for one body, as many as are asked for at most.
-- params: scope, replay, most
-- columns: id
SELECT id::text AS id
  FROM {events}
 WHERE scope = :scope::text AND replay = :replay::bytea AND flags LIKE 'conflict%'
 LIMIT :most::bigint
