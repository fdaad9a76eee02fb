-- Set the flags of one event.
-- params: id, flags
-- columns: id
UPDATE {events} SET flags = :flags::text WHERE id = :id::uuid RETURNING id::text
