-- Lease a bounded number of jobs that came back from a lost worker. They may be what killed it, so
-- the caller takes them only to start them at once, and repeated ones one at a time.
-- params: queue, limit, worker, hold, least, most (rescues so far), now
-- columns: id, scope, name, queue, event, payload, attempts, rescues, max_attempts, token, epoch,
--          created_at, priority, run_at, due_at, taken_at (times in microseconds)
UPDATE {jobs}
   SET state = 'leased', epoch = epoch + 1, token = randomblob(16), worker = :worker, parked = 0,
       deadline = :now + :hold, due_at = coalesce(due_at, max(run_at, created_at))
 WHERE id IN (SELECT id FROM {jobs}
               WHERE state = 'ready' AND rescues > 0 AND rescues BETWEEN :least AND :most
                 AND queue = :queue AND run_at <= :now
               ORDER BY run_at LIMIT :limit)
RETURNING id, scope, name, queue, event, payload, attempts, rescues, max_attempts, token, epoch,
          created_at, priority, run_at, due_at, :now AS taken_at
