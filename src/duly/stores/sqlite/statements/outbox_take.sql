-- Lease a bounded number of messages of one destination, the oldest first. The epoch grows, the
-- token is new for each. The caller says where its last batch of it ended.
-- params: destination, room (how many), since (the time to begin after, empty for none), last (the
--         id there, or empty), lease (microseconds), now
-- columns: id, scope, destination, request, body, signer, attempts, rescues, max_attempts, token,
--          epoch, created_at, run_at, due_at, taken_at (times in microseconds)
UPDATE {outbox}
   SET state = 'leased', due_at = coalesce(due_at, max(run_at, created_at)),
       epoch = epoch + 1, token = randomblob(16), lease_until = :now + :lease
 WHERE id IN (SELECT id FROM {outbox}
               WHERE state = 'ready' AND waiting = 0 AND destination = :destination
                 AND (run_at, id)
                     > (CAST(coalesce(nullif(:since, ''), -9223372036854775808) AS INTEGER), :last)
               ORDER BY run_at, id LIMIT CAST(:room AS INTEGER))
RETURNING id, scope, destination, request, body, signer, attempts, rescues, max_attempts, token,
          epoch, created_at, run_at, due_at, :now AS taken_at
