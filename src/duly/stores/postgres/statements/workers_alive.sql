-- The workers that were seen lately.
-- params: age (microseconds), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT id::text AS id
  FROM {workers}, moment
 WHERE seen_at > moment.now - :age::bigint * interval '1 microsecond'
