-- Enqueue one job; it can be taken as soon as the transaction commits and its time has come.
-- params: id, scope, name, queue, event (null for a plain job), payload (null for an event's),
--         delay (microseconds), priority, max_attempts, now
-- columns: id
INSERT INTO {jobs} (id, scope, name, queue, event, payload, state, run_at, priority, attempts,
                    rescues, max_attempts, epoch)
VALUES (:id, :scope, :name, :queue, :event, :payload, 'ready', :now + :delay, :priority, 0,
        0, :max_attempts, 0)
RETURNING id
