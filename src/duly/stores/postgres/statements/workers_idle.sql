-- Mark a worker idle, so that new jobs wake it, or busy.
-- params: id, idle
-- columns: id
UPDATE {workers} SET idle = :idle::boolean WHERE id = :id::uuid RETURNING id::text
