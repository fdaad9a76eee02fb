-- The conflicts that were recorded for one body, as many as are asked for at most.
-- params: scope, replay, most
-- columns: id
SELECT id
  FROM {events}
 WHERE scope = :scope AND replay = :replay AND flags LIKE 'conflict%'
 LIMIT :most
