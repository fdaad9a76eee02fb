-- Delete a claim that is done, so that its key is unknown again. No row back: there is none, or
-- somebody is working under it. Whoever else has it locked is waited for, and no longer than asked.
-- params: scope, digest, now, wait
-- columns: digest
WITH {moment}
DELETE FROM {claims} AS claim USING moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea AND claim.state = 'done'
RETURNING claim.digest
