-- Keep the result of a claim made earlier in this same transaction.
-- params: scope, digest, token, result
-- columns: epoch
UPDATE {claims}
   SET result = :result
 WHERE scope = :scope AND digest = :digest
   AND state = 'done' AND token = :token
RETURNING epoch
