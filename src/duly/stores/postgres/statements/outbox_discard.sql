-- Delete a dead message for good; the history remembers that. No row back: it is not dead.
-- params: id, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
gone AS (
    DELETE FROM {outbox} WHERE id = :id::uuid AND state = 'dead'
    RETURNING id, scope, destination, attempts, rescues
)
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT id, scope, destination, NULL, 'discarded', NULL, moment.now, attempts + rescues
  FROM gone, moment
RETURNING job::text AS id
