-- A worker has nothing to do, and wants to be woken; or it has enough.
-- params: id, idle
-- columns: id
UPDATE {workers} SET idle = :idle::boolean WHERE id = :id::uuid RETURNING id::text
