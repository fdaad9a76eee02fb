-- Enqueue many jobs of one handler at once: one statement, one array for each column that differs.
-- params: id, payload (arrays; empty bytes for none), scope, name, queue, delay, at, priority,
--         max_attempts, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT now, coalesce(timestamptz 'epoch' + :at::bigint * interval '1 microsecond',
                         now + :delay::bigint * interval '1 microsecond') AS run_at
      FROM moment
)
INSERT INTO {jobs} (id, scope, name, queue, payload, state, run_at, priority, attempts,
                    rescues, max_attempts, epoch, waiting, created_at)
SELECT each.id::uuid, :scope::text, :name::text, :queue::text, nullif(each.payload, ''::bytea),
       'ready', run_at, :priority::smallint, 0,
       0, :max_attempts::integer, 0, run_at > now, now
  FROM given, unnest(:id::text[], :payload::bytea[]) AS each (id, payload)
    ON CONFLICT (id) DO NOTHING
RETURNING id::text, {woken}
