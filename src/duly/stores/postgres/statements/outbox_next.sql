-- Whether a message can be sent now, whether a lease has run out, and how long until there is more to
-- do: one that waits can be sent, or a lease that is held runs out.
-- params: now
-- columns: due, lost, next_in (microseconds; null where nothing waits)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT (SELECT min(message.destination) FROM {outbox} AS message
         WHERE message.state = 'ready' AND NOT message.waiting) IS NOT NULL AS due,
       EXISTS (SELECT FROM {outbox} AS message
                WHERE message.state = 'leased' AND message.lease_until <= moment.now) AS lost,
       (extract(epoch FROM least(
           (SELECT min(message.run_at) FROM {outbox} AS message
             WHERE message.state = 'ready' AND message.waiting),
           (SELECT min(message.lease_until) FROM {outbox} AS message
             WHERE message.state = 'leased')) - moment.now) * 1000000)::bigint AS next_in
  FROM moment
