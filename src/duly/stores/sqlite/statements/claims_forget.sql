-- Delete a claim that is done, so that its key is unknown again. No row back: there is no such
-- claim, or it is leased.
-- params: scope, digest
-- columns: digest
DELETE FROM {claims}
 WHERE scope = :scope AND digest = :digest AND state = 'done'
RETURNING digest
