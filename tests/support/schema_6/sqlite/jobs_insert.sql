-- Enqueue one job; it can be taken as soon as the transaction commits and its time has come. No
-- row back: a job of this id is there already.
-- params: id, scope, name, queue, event (null for a plain job), payload (null for an event's),
--         delay (microseconds), at (microseconds; null: now and the delay), priority, max_attempts,
--         now
-- columns: id
INSERT INTO {jobs} (id, scope, name, queue, event, payload, state, run_at, priority, attempts,
                    rescues, max_attempts, epoch, waiting, created_at)
VALUES (:id, :scope, :name, :queue, :event, :payload, 'ready', coalesce(:at, :now + :delay),
        :priority, 0, 0, :max_attempts, 0, coalesce(:at, :now + :delay) > :now, :now)
    ON CONFLICT (id) DO NOTHING
RETURNING id
