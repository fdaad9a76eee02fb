-- How many jobs of each queue can be taken now, wait for their time, are leased and are dead.
-- params: now
-- columns: queue, ready, waiting, parked (part of those that wait), leased, dead, oldest
--          (microseconds since the first of the ready ones could be taken; null where none is)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT job.queue,
       count(*) FILTER (WHERE job.state = 'ready' AND job.run_at <= moment.now) AS ready,
       count(*) FILTER (WHERE job.state = 'ready' AND job.run_at > moment.now) AS waiting,
       count(*) FILTER (WHERE job.state = 'ready' AND job.run_at > moment.now
                          AND job.parked) AS parked,
       count(*) FILTER (WHERE job.state = 'leased') AS leased,
       count(*) FILTER (WHERE job.state = 'dead') AS dead,
       (extract(epoch FROM max(moment.now - job.run_at)
                           FILTER (WHERE job.state = 'ready' AND job.run_at <= moment.now))
        * 1000000)::bigint AS oldest
  FROM {jobs} AS job, moment
 GROUP BY job.queue
 ORDER BY job.queue
