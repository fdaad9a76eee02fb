-- How many messages of each destination can be sent now, wait for their time, are leased and are
-- dead.
-- params: now
-- columns: destination, ready, waiting, leased, dead, oldest (microseconds since the first of the
--          ready ones could be sent; null where none is)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT message.destination,
       count(*) FILTER (WHERE message.state = 'ready' AND message.run_at <= moment.now) AS ready,
       count(*) FILTER (WHERE message.state = 'ready' AND message.run_at > moment.now) AS waiting,
       count(*) FILTER (WHERE message.state = 'leased') AS leased,
       count(*) FILTER (WHERE message.state = 'dead') AS dead,
       (extract(epoch FROM max(moment.now - message.run_at)
                FILTER (WHERE message.state = 'ready' AND message.run_at <= moment.now))
        * 1000000)::bigint AS oldest
  FROM {outbox} AS message, moment
 GROUP BY message.destination
 ORDER BY message.destination
