-- The last slot of a schedule that was enqueued, locked; and what time it is.
-- params: scope, name, now
-- columns: slot (microseconds; null where there is none yet), now (microseconds)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
known AS (
    SELECT slot FROM {schedules} WHERE scope = :scope::text AND name = :name::text FOR UPDATE
)
SELECT (extract(epoch FROM known.slot) * 1000000)::bigint AS slot,
       (extract(epoch FROM moment.now) * 1000000)::bigint AS now
  FROM moment LEFT JOIN known ON true
