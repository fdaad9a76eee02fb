-- The dead jobs after a given one, the earliest first, and the time. A filter that is null
-- selects everything.
-- params: id, source, type, name, since, until, after_at (microseconds), after_id, limit, now
-- columns: id, dead_at, now (microseconds)
SELECT job.id, job.dead_at, :now AS now
  FROM {jobs} AS job
  LEFT JOIN {events} AS event ON event.id = job.event
 WHERE job.state = 'dead'
   AND (job.dead_at, job.id) > (:after_at, :after_id)
   AND (:id IS NULL OR job.id = :id)
   AND (:source IS NULL OR event.source = :source)
   AND (:type IS NULL OR event.type = :type)
   AND (:name IS NULL OR job.name = :name)
   AND (:since IS NULL OR job.dead_at >= :since)
   AND (:until IS NULL OR job.dead_at < :until)
 ORDER BY job.dead_at, job.id
 LIMIT :limit
