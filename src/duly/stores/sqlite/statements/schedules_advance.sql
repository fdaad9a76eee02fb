-- Note the last slot of a schedule. No row back: it was noted before, or a later one was.
-- params: scope, name, slot (microseconds), now
-- columns: name
INSERT INTO {schedules} AS known (scope, name, slot)
VALUES (:scope, :name, :slot)
    ON CONFLICT (scope, name) DO UPDATE SET slot = excluded.slot WHERE known.slot < excluded.slot
RETURNING name
