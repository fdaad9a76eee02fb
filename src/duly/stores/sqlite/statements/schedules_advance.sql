-- Move a schedule on to a slot, and lock it until the transaction ends. No row back: it is not at
-- the slot that the caller saw, because another worker has moved it on.
-- params: scope, name, slot (microseconds), before (microseconds; null: there was none)
-- columns: name
INSERT INTO {schedules} AS known (scope, name, slot)
VALUES (:scope, :name, :slot)
    ON CONFLICT (scope, name) DO UPDATE SET slot = excluded.slot
 WHERE known.slot = :before
RETURNING name
