-- How many messages of each destination can be sent now, wait for their time, are leased and are
-- dead.
-- params: now
-- columns: destination, ready, waiting, leased, dead, oldest (microseconds since the first of the
--          ready ones could be sent; null where none is)
SELECT destination,
       count(*) FILTER (WHERE state = 'ready' AND run_at <= :now) AS ready,
       count(*) FILTER (WHERE state = 'ready' AND run_at > :now) AS waiting,
       count(*) FILTER (WHERE state = 'leased') AS leased,
       count(*) FILTER (WHERE state = 'dead') AS dead,
       max(:now - run_at) FILTER (WHERE state = 'ready' AND run_at <= :now) AS oldest
  FROM {outbox}
 GROUP BY destination
 ORDER BY destination
