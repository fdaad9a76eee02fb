-- Read the claim that guards the key of an enqueue: the token is the id of the job it led to.
-- params: scope, digest, now
-- columns: token, expired
SELECT token, coalesce(expires_at <= :now, 0) AS expired
  FROM {claims}
 WHERE scope = :scope AND digest = :digest
