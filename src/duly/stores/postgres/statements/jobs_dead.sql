-- Dead jobs, the latest first, with their events. A filter that is null selects everything.
-- params: id, source, type, name, since, until (microseconds), limit
-- columns: id, scope, name, queue, event_id, source, type, payload, attempts, rescues,
--          max_attempts, created_at, dead_at (microseconds), last_error
SELECT job.id::text AS id, job.scope, job.name, job.queue, event.event_id, event.source, event.type,
       job.payload, job.attempts, job.rescues, job.max_attempts,
       (extract(epoch FROM job.created_at) * 1000000)::bigint AS created_at,
       (extract(epoch FROM coalesce(job.dead_at, job.created_at)) * 1000000)::bigint AS dead_at,
       job.last_error
  FROM {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.state = 'dead'
   AND (:id::uuid IS NULL OR job.id = :id::uuid)
   AND (:source::text IS NULL OR event.source = :source::text)
   AND (:type::text IS NULL OR event.type = :type::text)
   AND (:name::text IS NULL OR job.name = :name::text)
   AND (:since::bigint IS NULL
        OR job.dead_at >= timestamptz 'epoch' + :since::bigint * interval '1 microsecond')
   AND (:until::bigint IS NULL
        OR job.dead_at < timestamptz 'epoch' + :until::bigint * interval '1 microsecond')
 ORDER BY job.dead_at DESC, job.id DESC
 LIMIT :limit::bigint
