-- Enqueue one job; it can be taken as soon as the transaction commits and its time has come.
-- params: id, scope, name, queue, event (null for a plain job), payload (null for an event's),
--         delay (microseconds), priority, max_attempts, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {jobs} (id, scope, name, queue, event, payload, state, run_at, priority, attempts,
                    rescues, max_attempts, epoch)
SELECT :id::uuid, :scope::text, :name::text, :queue::text, :event::uuid, :payload::bytea, 'ready',
       moment.now + :delay::bigint * interval '1 microsecond', :priority::smallint, 0,
       0, :max_attempts::integer, 0
  FROM moment
RETURNING id::text
