-- The workers that were seen within their lease. A relay has a row here, too, without queues.
-- params: now
-- columns: id, host, pid, queues (JSON array)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT id::text AS id, host, pid, queues
  FROM {workers}, moment
 WHERE queues <> '[]' AND seen_at > moment.now - lease * interval '1 microsecond'
 ORDER BY id
