-- Dead jobs, the latest first, with their events. A filter that is null selects everything.
-- params: id, source, type, name, since, until (microseconds), limit
-- columns: id, scope, name, queue, event_id, source, type, payload, attempts, rescues,
--          max_attempts, created_at, dead_at (microseconds), last_error
SELECT job.id, job.scope, job.name, job.queue, event.event_id, event.source, event.type AS type,
       job.payload, job.attempts, job.rescues, job.max_attempts, job.created_at,
       coalesce(job.dead_at, job.created_at) AS dead_at, job.last_error
  FROM {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.state = 'dead'
   AND (:id IS NULL OR job.id = :id)
   AND (:source IS NULL OR event.source = :source)
   AND (:type IS NULL OR event.type = :type)
   AND (:name IS NULL OR job.name = :name)
   AND (:since IS NULL OR job.dead_at >= :since)
   AND (:until IS NULL OR job.dead_at < :until)
 ORDER BY job.dead_at DESC, job.id DESC
 LIMIT :limit
