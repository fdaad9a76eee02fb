-- Keep the result of a claim made earlier in this same transaction.
-- params: scope, digest, token, result
-- columns: epoch
UPDATE {claims}
   SET result = :result::bytea
 WHERE scope = :scope::text AND digest = :digest::bytea
   AND state = 'done' AND token = :token::bytea
RETURNING epoch
