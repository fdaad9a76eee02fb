-- Delete workers that were not seen for long and have no lease left.
-- params: age (microseconds), limit, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {workers}
 WHERE id = ANY (ARRAY (
        SELECT worker.id
          FROM {workers} AS worker, moment
         WHERE worker.seen_at <= moment.now - :age::bigint * interval '1 microsecond'
           AND NOT EXISTS (SELECT FROM {jobs} AS job
                            WHERE job.worker = worker.id AND job.state = 'leased')
         LIMIT :limit::bigint
           FOR UPDATE OF worker SKIP LOCKED))
RETURNING id::text
