-- The jobs of an event, by either of its names, that are still in the table; SQLite's write lock
-- keeps them as they are.
-- params: scope, digest
-- columns: id, name, state
SELECT job.id, job.name, job.state
  FROM {jobs} AS job
  JOIN {events} AS event ON event.id = job.event
 WHERE event.scope = :scope AND (event.digest = :digest OR event.replay = :digest)
 ORDER BY job.id
