-- The dead messages after a given one, the earliest first, and the time. A filter that is null
-- selects everything.
-- params: id, destination, since, until, after_at (microseconds), after_id, limit, now
-- columns: id, dead_at, now (microseconds)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT message.id::text AS id, (extract(epoch FROM message.dead_at) * 1000000)::bigint AS dead_at,
       (extract(epoch FROM moment.now) * 1000000)::bigint AS now
  FROM moment, {outbox} AS message
 WHERE message.state = 'dead'
   AND (message.dead_at, message.id)
       > (timestamptz 'epoch' + :after_at::bigint * interval '1 microsecond', :after_id::uuid)
   AND (:id::uuid IS NULL OR message.id = :id::uuid)
   AND (:destination::text IS NULL OR message.destination = :destination::text)
   AND (:since::bigint IS NULL
        OR message.dead_at >= timestamptz 'epoch' + :since::bigint * interval '1 microsecond')
   AND (:until::bigint IS NULL
        OR message.dead_at < timestamptz 'epoch' + :until::bigint * interval '1 microsecond')
 ORDER BY message.dead_at, message.id
 LIMIT :limit::bigint
