-- Delete a dead message for good; the history remembers that. No row back: it is not dead.
-- Whoever else has it locked is waited for, and no longer than asked.
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
