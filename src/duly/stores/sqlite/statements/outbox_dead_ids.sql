-- The dead messages after a given one, the earliest first, and the time. A filter that is null
-- selects everything.
-- params: id, destination, since, until, after_at (microseconds), after_id, limit, now
-- columns: id, dead_at, now (microseconds)
SELECT id, dead_at, :now AS now
  FROM {outbox}
 WHERE state = 'dead'
   AND (dead_at, id) > (:after_at, :after_id)
   AND (:id IS NULL OR id = :id)
   AND (:destination IS NULL OR destination = :destination)
   AND (:since IS NULL OR dead_at >= :since)
   AND (:until IS NULL OR dead_at < :until)
 ORDER BY dead_at, id
 LIMIT :limit
