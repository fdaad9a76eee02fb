-- Delete a claim that is done, so that its key is unknown again. No row back: there is no such
-- claim, or it is leased. Waits for another transaction's lock, but no longer than the bound.
-- params: scope, digest, now, wait
-- columns: digest
WITH {moment}
DELETE FROM {claims} AS claim USING moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea AND claim.state = 'done'
RETURNING claim.digest
