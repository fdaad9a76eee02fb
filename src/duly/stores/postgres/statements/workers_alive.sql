-- The workers that were seen lately; a relay has a row here, too, without queues.
-- params: age (microseconds), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT id::text AS id
  FROM {workers}, moment
 WHERE queues <> '[]' AND seen_at > moment.now - :age::bigint * interval '1 microsecond'
