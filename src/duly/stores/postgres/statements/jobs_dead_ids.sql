-- The dead jobs after a given one, the earliest first, and the time. A filter that is null
-- selects everything.
-- params: id, source, type, name, since, until, after_at (microseconds), after_id, limit, now
-- columns: id, dead_at, now (microseconds)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT job.id::text AS id, (extract(epoch FROM job.dead_at) * 1000000)::bigint AS dead_at,
       (extract(epoch FROM moment.now) * 1000000)::bigint AS now
  FROM moment, {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.state = 'dead'
   AND (job.dead_at, job.id)
       > (timestamptz 'epoch' + :after_at::bigint * interval '1 microsecond', :after_id::uuid)
   AND (:id::uuid IS NULL OR job.id = :id::uuid)
   AND (:source::text IS NULL OR event.source = :source::text)
   AND (:type::text IS NULL OR event.type = :type::text)
   AND (:name::text IS NULL OR job.name = :name::text)
   AND (:since::bigint IS NULL
        OR job.dead_at >= timestamptz 'epoch' + :since::bigint * interval '1 microsecond')
   AND (:until::bigint IS NULL
        OR job.dead_at < timestamptz 'epoch' + :until::bigint * interval '1 microsecond')
 ORDER BY job.dead_at, job.id
 LIMIT :limit::bigint
