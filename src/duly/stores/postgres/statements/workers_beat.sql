-- Record a worker's heartbeat, and for how long it counts as alive.
-- params: id, host, pid, queues, idle, lease (microseconds), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {workers} AS known (id, host, pid, seen_at, queues, idle, lease)
SELECT :id::uuid, :host::text, :pid::integer, moment.now, :queues::text, :idle::boolean,
       :lease::bigint
  FROM moment
    ON CONFLICT (id) DO UPDATE
   SET seen_at = excluded.seen_at, lease = excluded.lease
RETURNING id::text
