-- The relays that were seen within their lease: rows among the workers, without queues.
-- params: now
-- columns: id, host, pid
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT id::text AS id, host, pid
  FROM {workers}, moment
 WHERE queues = '[]' AND seen_at > moment.now - lease * interval '1 microsecond'
 ORDER BY id
