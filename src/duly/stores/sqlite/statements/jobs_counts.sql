-- How many jobs of each queue can be taken now, wait for their time, are leased and are dead.
-- params: now
-- columns: queue, ready, waiting, parked (part of those that wait), leased, dead, oldest
--          (microseconds since the first of the ready ones could be taken; null where none is)
SELECT queue,
       sum(state = 'ready' AND run_at <= :now) AS ready,
       sum(state = 'ready' AND run_at > :now) AS waiting,
       sum(state = 'ready' AND run_at > :now AND parked = 1) AS parked,
       sum(state = 'leased') AS leased,
       sum(state = 'dead') AS dead,
       max(CASE WHEN state = 'ready' AND run_at <= :now THEN :now - run_at END) AS oldest
  FROM {jobs}
 GROUP BY queue
 ORDER BY queue
