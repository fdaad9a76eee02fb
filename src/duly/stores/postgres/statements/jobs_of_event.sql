-- The jobs of an event, by either of its names, that are still in the table; locked, so that no
-- worker takes one meanwhile.
-- params: scope, digest
-- columns: id, name, state
SELECT job.id::text AS id, job.name, job.state
  FROM {jobs} AS job
  JOIN {events} AS event ON event.id = job.event
 WHERE event.scope = :scope::text
   AND (event.digest = :digest::bytea OR event.replay = :digest::bytea)
 ORDER BY job.id
   FOR UPDATE OF job
