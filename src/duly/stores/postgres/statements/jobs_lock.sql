-- One job and its event, locked against being taken, replayed or discarded meanwhile.
-- params: id, now, wait
-- columns: id, scope, name, state, event_id (null for a plain job)
WITH {moment}
SELECT job.id::text AS id, job.scope, job.name, job.state, event.event_id
  FROM moment, {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.id = :id::uuid
   FOR UPDATE OF job
