-- What is recorded of an effect, and whether the job's lease still holds.
-- params: scope, digest, name, job, token, epoch
-- columns: state (null where nothing is known), result, intended (the epoch of the lease that
--          intended it), held
SELECT effect.state, effect.result, effect.epoch AS intended,
       EXISTS (SELECT FROM {jobs} AS job
                WHERE job.id = :job::uuid AND job.state = 'leased' AND job.token = :token::bytea
                  AND job.epoch = :epoch::bigint) AS held
  FROM (SELECT 1) AS one
  LEFT JOIN {effects} AS effect
    ON effect.scope = :scope::text AND effect.digest = :digest::bytea
   AND effect.name = :name::text
