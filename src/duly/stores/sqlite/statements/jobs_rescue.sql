-- Take back a bounded number of leases whose worker was not seen within its lease, is gone, or
-- whose deadline has passed. A row that is being settled is locked, and left alone. Each comes
-- back later than the last time, after a random wait; the fifth time it is dead.
-- params: worker (who asks: its own leases are lost only at their deadline), limit, most (rescues),
--         waits (JSON array: the longest wait in microseconds after each rescue), error, now
-- columns: id, name, state, rescues
UPDATE {jobs}
   SET rescues = rescues + 1, waiting = 0, token = NULL, worker = NULL, deadline = NULL,
       state = CASE WHEN rescues + 1 >= :most THEN 'dead' ELSE 'ready' END,
       dead_at = CASE WHEN rescues + 1 >= :most THEN :now END,
       run_at = :now + CAST((abs(random() / 2) / 4611686018427387904.0)
                * (:waits ->> min(rescues, json_array_length(:waits) - 1)) AS INTEGER),
       last_error = :error
 WHERE id IN (SELECT job.id
                FROM {jobs} AS job
                LEFT JOIN {workers} AS worker ON worker.id = job.worker
               WHERE job.state = 'leased'
                 AND (job.deadline <= :now
                      OR (job.worker IS NOT :worker
                          AND (worker.id IS NULL OR worker.seen_at <= :now - worker.lease)))
               ORDER BY job.id LIMIT :limit)
RETURNING id, name, state, rescues
