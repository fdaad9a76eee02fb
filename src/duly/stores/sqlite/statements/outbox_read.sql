-- One message in any state: a ready one whose time has not come is waiting, and one that has left
-- the table is what the history says, sent or discarded. No row back: it is not known.
-- params: id, scope, now
-- columns: id, state, destination, request, body, signer, attempts, rescues, max_attempts,
--          created_at, run_at, lease_until, dead_at, ended (microseconds), last_error
SELECT id, CASE WHEN state = 'ready' AND run_at > :now THEN 'waiting' ELSE state END AS state,
       destination, request, body, signer, attempts, rescues, max_attempts, created_at, run_at,
       lease_until, dead_at, NULL AS ended, last_error
  FROM {outbox}
 WHERE id = :id
 UNION ALL
SELECT job, outcome, name, NULL, NULL, NULL, attempts, NULL, NULL, NULL, NULL, NULL, NULL, ended,
       NULL
  FROM {history}
 WHERE job = :id AND scope = :scope
