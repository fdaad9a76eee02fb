-- Delete one dead job. No row back: it is no longer dead.
-- params: id
-- columns: id
DELETE FROM {jobs} WHERE id = :id::uuid AND state = 'dead' RETURNING id::text
