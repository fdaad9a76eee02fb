-- The workers that were seen within their lease. A relay has a row here, too, without queues.
-- params: now
-- columns: id, host, pid, queues (JSON array)
SELECT id, host, pid, queues
  FROM {workers}
 WHERE queues <> '[]' AND seen_at > :now - lease
 ORDER BY id
