-- The event of a dead job, with the beginning of its body. No row where the job is not dead, or
-- has no event. The body is null where it was pruned.
-- params: id, most (bytes)
-- columns: source, event_id, type, received_at, event_time (microseconds), size, body
SELECT event.source, event.event_id, event.type,
       (extract(epoch FROM event.received_at) * 1000000)::bigint AS received_at,
       (extract(epoch FROM event.event_time) * 1000000)::bigint AS event_time,
       length(event.body) AS size, substring(event.body FROM 1 FOR :most::integer) AS body
  FROM {jobs} AS job
  JOIN {events} AS event ON event.id = job.event
 WHERE job.id = :id::uuid AND job.state = 'dead'
