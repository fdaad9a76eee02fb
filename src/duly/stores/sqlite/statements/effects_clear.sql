-- A person says that an effect did not happen whose outcome nobody knew: the next run starts from
-- nothing. No row back: there is none.
-- params: scope, digest, name
-- columns: name
DELETE FROM {effects}
 WHERE scope = :scope AND digest = :digest AND name = :name AND state <> 'done'
RETURNING name
