-- The second half of ending a lease: remove the row that was just written into the history.
-- params: id, token, epoch
-- columns: id
DELETE FROM {jobs}
 WHERE id = :id AND state = 'leased' AND token = :token AND epoch = :epoch
RETURNING id
