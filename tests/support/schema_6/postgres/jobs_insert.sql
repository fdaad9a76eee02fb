-- Enqueue one job; it can be taken as soon as the transaction commits and its time has come. No
-- row back: a job of this id is there already.
-- params: id, scope, name, queue, event (null for a plain job), payload (null for an event's),
--         delay (microseconds), at (microseconds; null: now and the delay), priority, max_attempts,
--         now
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
INSERT INTO {jobs} (id, scope, name, queue, event, payload, state, run_at, priority, attempts,
                    rescues, max_attempts, epoch, waiting, created_at)
SELECT :id::uuid, :scope::text, :name::text, :queue::text, :event::uuid, :payload::bytea, 'ready',
       run_at, :priority::smallint, 0,
       0, :max_attempts::integer, 0, run_at > now, now
  FROM given
    ON CONFLICT (id) DO NOTHING
RETURNING id::text, (SELECT pg_notify('{prefix}jobs', '')::text FROM {workers} WHERE idle LIMIT 1) AS woken
