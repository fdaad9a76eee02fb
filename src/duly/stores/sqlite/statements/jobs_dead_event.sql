-- The event of a dead job, with the beginning of its body. No row where the job is not dead, or
-- has no event. The body is null where it was pruned.
-- params: id, most (bytes)
-- columns: source, event_id, type, received_at, event_time (microseconds), size, body
SELECT event.source, event.event_id, event.type AS type, event.received_at, event.event_time,
       length(event.body) AS size, substr(event.body, 1, :most) AS body
  FROM {jobs} AS job
  JOIN {events} AS event ON event.id = job.event
 WHERE job.id = :id AND job.state = 'dead'
