-- A person says that an effect happened whose outcome nobody knew. No row back: there is none.
-- params: scope, digest, name, result, now
-- columns: name
UPDATE {effects}
   SET state = 'done', result = :result, at = :now
 WHERE scope = :scope AND digest = :digest AND name = :name AND state <> 'done'
RETURNING name
