-- Record a worker's heartbeat, and for how long it counts as alive.
-- params: id, host, pid, queues, idle, lease (microseconds), now
-- columns: id
INSERT INTO {workers} (id, host, pid, seen_at, queues, idle, lease)
VALUES (:id, :host, :pid, :now, :queues, :idle, :lease)
    ON CONFLICT (id) DO UPDATE
   SET seen_at = excluded.seen_at, lease = excluded.lease
RETURNING id
