-- One job and its event; SQLite's write lock keeps it as it is.
-- params: id
-- columns: id, scope, name, state, event_id (null for a plain job)
SELECT job.id, job.scope, job.name, job.state, event.event_id
  FROM {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.id = :id
