-- The jobs of an event that are still in the table, locked, so that nobody takes one meanwhile.
-- params: scope, digest
-- columns: id, name, state
SELECT job.id::text AS id, job.name, job.state
  FROM {jobs} AS job
  JOIN {events} AS event ON event.id = job.event
 WHERE event.scope = :scope::text AND event.digest = :digest::bytea
 ORDER BY job.id
   FOR UPDATE OF job
