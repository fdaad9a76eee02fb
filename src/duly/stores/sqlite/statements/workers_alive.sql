-- The workers that were seen lately; a relay has a row here, too, without queues.
-- params: age (microseconds), now
-- columns: id
SELECT id FROM {workers} WHERE queues <> '[]' AND seen_at > :now - :age
