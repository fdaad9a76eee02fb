-- One message that is in the table, whatever its state; a ready one whose time has not come is
-- waiting. No row back: it was sent, it was discarded, or it never was.
-- params: id, now
-- columns: id, state, destination, request, body, signer, attempts, rescues, max_attempts,
--          created_at, run_at, lease_until, dead_at (microseconds), last_error
SELECT id, CASE WHEN state = 'ready' AND run_at > :now THEN 'waiting' ELSE state END AS state,
       destination, request, body, signer, attempts, rescues, max_attempts, created_at, run_at,
       lease_until, dead_at, last_error
  FROM {outbox}
 WHERE id = :id
