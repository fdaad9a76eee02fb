-- Mark a worker idle, so that new jobs wake it, or busy.
-- params: id, idle
-- columns: id
UPDATE {workers} SET idle = :idle WHERE id = :id RETURNING id
