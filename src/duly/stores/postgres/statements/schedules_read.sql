-- The last slot of every schedule, and the time. Nothing is locked: schedules_advance names the
-- slot that it moves on from.
-- params: now
-- columns: scope (null where there is no schedule yet), name, slot (microseconds),
--          now (microseconds)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT known.scope, known.name,
       (extract(epoch FROM known.slot) * 1000000)::bigint AS slot,
       (extract(epoch FROM moment.now) * 1000000)::bigint AS now
  FROM moment LEFT JOIN {schedules} AS known ON true
