-- One job and the event that it is about, locked, so that nobody takes, replays or discards it
-- meanwhile.
-- params: id, now, wait
-- columns: id, scope, name, state, event_id (null for a plain job)
WITH {moment}
SELECT job.id::text AS id, job.scope, job.name, job.state, event.event_id
  FROM moment, {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.id = :id::uuid
   FOR UPDATE OF job
