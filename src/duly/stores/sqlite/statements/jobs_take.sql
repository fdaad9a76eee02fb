-- Lease a bounded number of jobs of one queue: the most urgent, then the oldest. The epoch grows,
-- the token is new for each. The caller says where its last batch ended: see PostgreSQL's
-- statement.
-- params: queue, limit, worker, hold (microseconds until the lease ends in any case), urgency
--         (the priority to begin after), since (the time there, or null), last (the id, or null),
--         now
-- columns: id, scope, name, queue, event, payload, attempts, rescues, max_attempts, token, epoch,
--          created_at, priority, run_at, due_at, taken_at (times in microseconds)
UPDATE {jobs}
   SET state = 'leased', epoch = epoch + 1, token = randomblob(16), worker = :worker, parked = 0,
       deadline = :now + :hold, due_at = coalesce(due_at, max(run_at, created_at))
 WHERE id IN (SELECT id FROM {jobs}
               WHERE state = 'ready' AND waiting = 0 AND rescues = 0
                 AND queue = :queue AND run_at <= :now
                 AND (priority, run_at, id)
                     > (:urgency, coalesce(:since, -9223372036854775808), coalesce(:last, ''))
               ORDER BY priority, run_at, id LIMIT :limit)
RETURNING id, scope, name, queue, event, payload, attempts, rescues, max_attempts, token, epoch,
          created_at, priority, run_at, due_at, :now AS taken_at
