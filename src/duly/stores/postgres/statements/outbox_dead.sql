-- Dead messages, the latest first. A filter that is null selects everything.
-- params: id, destination, since, until (microseconds), limit
-- columns: id, destination, request, body, signer, attempts, rescues, max_attempts, created_at,
--          dead_at (microseconds), last_error
SELECT message.id::text AS id, message.destination, message.request, message.body,
       message.signer, message.attempts, message.rescues, message.max_attempts,
       (extract(epoch FROM message.created_at) * 1000000)::bigint AS created_at,
       (extract(epoch FROM message.dead_at) * 1000000)::bigint AS dead_at, message.last_error
  FROM {outbox} AS message
 WHERE message.state = 'dead'
   AND (:id::uuid IS NULL OR message.id = :id::uuid)
   AND (:destination::text IS NULL OR message.destination = :destination::text)
   AND (:since::bigint IS NULL
        OR message.dead_at >= timestamptz 'epoch' + :since::bigint * interval '1 microsecond')
   AND (:until::bigint IS NULL
        OR message.dead_at < timestamptz 'epoch' + :until::bigint * interval '1 microsecond')
 ORDER BY message.dead_at DESC, message.id DESC
 LIMIT :limit::bigint
