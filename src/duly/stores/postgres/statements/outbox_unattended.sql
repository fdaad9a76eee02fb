-- Whether a message could be sent now, and no relay was seen within its lease. A relay has a row
-- among the workers, without queues.
-- params: now
-- columns: unattended
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT (EXISTS (SELECT FROM {outbox} AS message WHERE message.state = 'ready' AND NOT message.waiting)
        OR EXISTS (SELECT FROM {outbox} AS message
                    WHERE message.state = 'ready' AND message.waiting
                      AND message.run_at <= moment.now))
       AND NOT EXISTS (SELECT FROM {workers} AS relay
                        WHERE relay.queues = '[]'
                          AND relay.seen_at > moment.now - relay.lease * interval '1 microsecond')
       AS unattended
  FROM moment
