-- The workers that were seen lately.
-- params: age (microseconds), now
-- columns: id
SELECT id FROM {workers} WHERE seen_at > :now - :age
