-- Delete a worker that has stopped; its leases can be taken back at once.
-- params: id
-- columns: id
DELETE FROM {workers} WHERE id = :id RETURNING id
