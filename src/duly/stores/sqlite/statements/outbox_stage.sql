-- Move a bounded number of messages whose time has come to where relays look.
-- params: limit, now
-- columns: id
UPDATE {outbox} SET waiting = 0
 WHERE id IN (SELECT id FROM {outbox}
               WHERE state = 'ready' AND waiting = 1 AND run_at <= :now
               ORDER BY run_at LIMIT :limit)
RETURNING id
