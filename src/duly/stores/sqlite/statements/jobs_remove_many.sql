-- The second half of ending many leases: remove the rows that were just written into the history.
-- params: each (JSON arrays of one id)
-- columns: id
DELETE FROM {jobs} WHERE id IN (SELECT value ->> 0 FROM json_each(:each)) RETURNING id
