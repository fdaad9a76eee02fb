-- Stage a message in the open transaction: it exists if that commits. No row back: a rerun after a
-- lost reply found what it had committed.
-- params: id, scope, destination, request, body, signer, delay (microseconds), at
--         (microseconds, or null for the delay), max_attempts, now
-- columns: id
INSERT INTO {outbox} (id, scope, destination, request, body, signer, state, run_at, waiting,
                      max_attempts, created_at)
VALUES (:id, :scope, :destination, :request, :body, :signer, 'ready',
        coalesce(:at, :now + :delay), coalesce(:at, :now + :delay) > :now, :max_attempts, :now)
    ON CONFLICT (id) DO NOTHING
RETURNING id
