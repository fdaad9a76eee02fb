-- Move a bounded number of jobs whose time has come to where workers look.
-- params: limit, now
-- columns: id
UPDATE {jobs}
   SET waiting = 0
 WHERE id IN (SELECT id FROM {jobs}
               WHERE state = 'ready' AND waiting = 1 AND run_at <= :now
               ORDER BY run_at LIMIT :limit)
RETURNING id
