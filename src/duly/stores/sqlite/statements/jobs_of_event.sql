-- The jobs of an event, by either of its names, that are still in the table; SQLite's write lock
-- keeps them as they are. Two halves, because SQLite would look through all events for an OR.
-- params: scope, digest
-- columns: id, name, state
SELECT job.id, job.name, job.state
  FROM {events} AS event
  JOIN {jobs} AS job ON job.event = event.id
 WHERE event.scope = :scope AND event.digest = :digest
 UNION
SELECT job.id, job.name, job.state
  FROM {events} AS event
  JOIN {jobs} AS job ON job.event = event.id
 WHERE event.scope = :scope AND event.replay = :digest
 ORDER BY 1
