-- Add to a counter of the current minute.
-- params: scope, name, n, now
-- columns: n
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {counters} AS counter (scope, name, bucket, n)
SELECT :scope::text, :name::text, date_trunc('minute', moment.now), :n::bigint
  FROM moment
    ON CONFLICT (scope, name, bucket) DO UPDATE SET n = counter.n + excluded.n
RETURNING n
