-- The relays that were seen within their lease: rows among the workers, without queues.
-- params: now
-- columns: id, host, pid
SELECT id, host, pid FROM {workers} WHERE queues = '[]' AND seen_at > :now - lease ORDER BY id
