-- Delete a claim that is done, so that its key is unknown again. No row back: there is none, or
-- somebody is working under it.
-- params: scope, digest
-- columns: digest
DELETE FROM {claims}
 WHERE scope = :scope::text AND digest = :digest::bytea AND state = 'done'
RETURNING digest
