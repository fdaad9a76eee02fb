-- A worker has nothing to do, and wants to be woken; or it has enough.
-- params: id, idle
-- columns: id
UPDATE {workers} SET idle = :idle WHERE id = :id RETURNING id
