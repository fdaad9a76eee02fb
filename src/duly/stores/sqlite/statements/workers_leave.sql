-- A worker ends; what it may still have leased can be taken back at once.
-- params: id
-- columns: id
DELETE FROM {workers} WHERE id = :id RETURNING id
