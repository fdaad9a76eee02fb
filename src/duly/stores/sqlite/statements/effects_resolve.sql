-- An operator says that an effect of unknown outcome happened, or gives the result that could not
-- be kept (it is empty then). No row back: there is no such effect.
-- params: scope, digest, name, result, now
-- columns: name
UPDATE {effects}
   SET state = 'done', result = :result, at = :now
 WHERE scope = :scope AND digest = :digest AND name = :name
   AND (state <> 'done' OR length(result) = 0)
RETURNING name
