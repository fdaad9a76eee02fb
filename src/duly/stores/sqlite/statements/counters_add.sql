-- Add to a counter of the current minute.
-- params: scope, name, n, now
-- columns: n
INSERT INTO {counters} AS counter (scope, name, bucket, n)
VALUES (:scope, :name, :now - :now % 60000000, :n)
    ON CONFLICT (scope, name, bucket) DO UPDATE SET n = counter.n + excluded.n
RETURNING n
