-- Delete the record of an effect that certainly did not happen, if the job's lease still holds.
-- params: scope, digest, name, job, token, epoch
-- columns: name
DELETE FROM {effects} AS effect
 USING (SELECT FROM {jobs}
         WHERE id = :job::uuid AND state = 'leased' AND token = :token::bytea
           AND epoch = :epoch::bigint
           FOR NO KEY UPDATE) AS held
 WHERE effect.scope = :scope::text AND effect.digest = :digest::bytea
   AND effect.name = :name::text AND effect.state <> 'done'
RETURNING effect.name
