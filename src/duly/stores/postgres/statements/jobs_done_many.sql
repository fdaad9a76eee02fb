-- End many leases at once, each under its own fence. A lease without a row in the answer was lost.
-- The state is written so that it names no partial index: that of the leases would be read whole.
-- params: id, token (hexadecimal), epoch, outcome, ran (arrays of text), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT each.id::uuid AS id, decode(each.token, 'hex') AS token, each.epoch::bigint AS epoch,
           each.outcome, each.ran::bigint * interval '1 microsecond' AS ran
      FROM unnest(:id::text[], :token::text[], :epoch::text[], :outcome::text[], :ran::text[])
           AS each (id, token, epoch, outcome, ran)
),
gone AS (
    DELETE FROM {jobs} AS job
     USING given
     WHERE job.id = given.id AND job.state NOT IN ('ready', 'dead') AND job.token = given.token
       AND job.epoch = given.epoch
    RETURNING job.id, job.scope, job.name, job.event, job.attempts, given.outcome, given.ran
)
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT gone.id, scope, name, event, outcome, moment.now - ran, moment.now, attempts + 1
  FROM gone, moment
RETURNING job::text AS id
