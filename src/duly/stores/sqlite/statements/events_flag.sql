-- Set the flags of one event.
-- params: id, flags
-- columns: id
UPDATE {events} SET flags = :flags WHERE id = :id RETURNING id
