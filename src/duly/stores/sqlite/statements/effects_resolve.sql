-- A person says that an effect happened whose outcome nobody knew, or what its result was where that
-- could not be kept (it is empty then). No row back: there is none.
-- params: scope, digest, name, result, now
-- columns: name
UPDATE {effects}
   SET state = 'done', result = :result, at = :now
 WHERE scope = :scope AND digest = :digest AND name = :name
   AND (state <> 'done' OR length(result) = 0)
RETURNING name
