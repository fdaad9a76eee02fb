-- Take back a bounded number of messages whose lease has run out: their relay crashed or stalled,
-- and whether they were sent is unknown. They are sent again, with the same id. A row that is
-- being settled is locked, and left alone. Each comes back later than the last time, after a
-- random wait; at the last rescue it is dead.
-- params: limit, most (rescues), waits (JSON array: the longest wait in microseconds after each
--         rescue), error, now
-- columns: id, destination, state, rescues
UPDATE {outbox}
   SET rescues = rescues + 1, token = NULL, lease_until = NULL,
       state = CASE WHEN rescues + 1 >= :most THEN 'dead' ELSE 'ready' END,
       dead_at = CASE WHEN rescues + 1 >= :most THEN :now END,
       waiting = rescues + 1 < :most,
       run_at = :now + CAST((abs(random() / 2) / 4611686018427387904.0)
                * (:waits ->> min(rescues, json_array_length(:waits) - 1)) AS INTEGER),
       last_error = :error
 WHERE id IN (SELECT id FROM {outbox}
               WHERE state = 'leased' AND lease_until <= :now
               ORDER BY lease_until LIMIT :limit)
RETURNING id, destination, state, rescues
