-- Record in the history that a dead job was discarded, before its row is deleted.
-- params: id, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT job.id, job.scope, job.name, job.event, 'discarded', NULL, moment.now, job.attempts
  FROM {jobs} AS job, moment
 WHERE job.id = :id::uuid AND job.state = 'dead'
RETURNING job::text AS id
