-- Move a bounded number of jobs whose time has come to where workers look.
-- params: limit, now
-- columns: id
WITH moment AS MATERIALIZED (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
chosen AS MATERIALIZED (
    SELECT job.id
      FROM {jobs} AS job
     WHERE job.state = 'ready' AND job.waiting
       AND job.run_at <= (SELECT moment.now FROM moment)
     ORDER BY job.run_at
     LIMIT :limit::bigint
       FOR UPDATE OF job SKIP LOCKED
)
UPDATE {jobs} AS job SET waiting = false
 WHERE job.id = ANY (ARRAY (SELECT chosen.id FROM chosen))
RETURNING job.id::text
