-- Clear the idle mark of workers that were not seen within their lease: nothing needs to wake
-- them.
-- params: now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {workers} AS worker
   SET idle = false
  FROM moment
 WHERE worker.idle AND worker.seen_at <= moment.now - worker.lease * interval '1 microsecond'
RETURNING worker.id::text
