-- Take back a bounded number of leases whose worker was not seen within its lease, is gone, or
-- whose deadline has passed. A row that is being settled is locked, and left alone. Each comes
-- back later than the last time, after a random wait; the fifth time it is dead.
-- params: worker (who asks: its own leases are lost only at their deadline), limit, most (rescues),
--         waits (JSON array: the longest wait in microseconds after each rescue), error, now
-- columns: id, name, state, rescues
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
lost AS MATERIALIZED (
    SELECT job.id, job.epoch
      FROM {jobs} AS job
      LEFT JOIN {workers} AS worker ON worker.id = job.worker
     CROSS JOIN moment
     WHERE job.state = 'leased'
       AND (job.deadline <= moment.now
            OR (job.worker IS DISTINCT FROM :worker::uuid
                AND (worker.id IS NULL
                     OR worker.seen_at <= moment.now - worker.lease * interval '1 microsecond')))
),
-- Locked apart, by the epoch: a row that has another worker by now is looked at again as it is, but
-- beside the worker that it had, and would pass for one whose worker is gone.
chosen AS MATERIALIZED (
    SELECT job.id
      FROM {jobs} AS job
      JOIN lost ON lost.id = job.id AND lost.epoch = job.epoch
     WHERE job.state = 'leased'
     ORDER BY job.id
     LIMIT :limit::bigint
       FOR UPDATE OF job SKIP LOCKED
)
UPDATE {jobs} AS job
   SET rescues = job.rescues + 1, waiting = false, token = NULL, worker = NULL, deadline = NULL,
       state = CASE WHEN job.rescues + 1 >= :most::integer THEN 'dead' ELSE 'ready' END,
       dead_at = CASE WHEN job.rescues + 1 >= :most::integer THEN moment.now END,
       run_at = moment.now + interval '1 microsecond' * (random()
                * (:waits::json ->> least(job.rescues, json_array_length(:waits::json) - 1))::bigint
                ),
       last_error = :error::bytea
  FROM chosen, moment
 WHERE job.id = chosen.id AND job.state = 'leased'
RETURNING job.id::text, job.name, job.state, job.rescues
