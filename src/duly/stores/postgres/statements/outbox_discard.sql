-- Delete a dead message for good; the history records that. No row back: it is not dead. Waits
-- for another transaction's lock, but no longer than the bound.
-- params: id, now, wait
-- columns: id
WITH {moment},
gone AS (
    DELETE FROM {outbox} AS message USING moment
     WHERE message.id = :id::uuid AND message.state = 'dead'
    RETURNING message.id, message.scope, message.destination, message.attempts, message.rescues,
              moment.now
)
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT id, scope, destination, NULL, 'discarded', NULL, now, attempts + rescues
  FROM gone
RETURNING job::text AS id
