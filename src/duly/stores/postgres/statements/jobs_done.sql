-- End a lease: the job is done, leaves the table, and is recorded in the history. No row back:
-- the lease was lost, and nothing has changed.
-- params: id, token, epoch, outcome, ran (microseconds), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
gone AS (
    DELETE FROM {jobs}
     WHERE id = :id::uuid AND state = 'leased' AND token = :token::bytea AND epoch = :epoch::bigint
    RETURNING id, scope, name, event, attempts
)
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT gone.id, scope, name, event, :outcome::text,
       moment.now - :ran::bigint * interval '1 microsecond', moment.now, attempts + 1
  FROM gone, moment
RETURNING job::text AS id
