-- Delete a bounded number of arrivals noted longer ago than their time.
-- params: age (microseconds), limit, now
-- columns: event
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {deliveries}
 WHERE ctid = ANY (ARRAY (
        SELECT delivery.ctid
          FROM {deliveries} AS delivery, moment
         WHERE delivery.at <= moment.now - :age::bigint * interval '1 microsecond'
         ORDER BY delivery.at
         LIMIT :limit::bigint
           FOR UPDATE OF delivery SKIP LOCKED))
RETURNING event::text
