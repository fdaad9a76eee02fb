-- Dead messages, the latest first. A filter that is null selects everything.
-- params: id, destination, since, until (microseconds), limit
-- columns: id, destination, request, body, signer, attempts, rescues, max_attempts, created_at,
--          dead_at (microseconds), last_error
SELECT id, destination, request, body, signer, attempts, rescues, max_attempts, created_at,
       dead_at, last_error
  FROM {outbox}
 WHERE state = 'dead'
   AND (:id IS NULL OR id = :id)
   AND (:destination IS NULL OR destination = :destination)
   AND (:since IS NULL OR dead_at >= :since)
   AND (:until IS NULL OR dead_at < :until)
 ORDER BY dead_at DESC, id DESC
 LIMIT :limit
