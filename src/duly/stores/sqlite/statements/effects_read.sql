-- What is recorded of an effect, and whether the job's lease still holds.
-- params: scope, digest, name, job, token, epoch
-- columns: state (null where nothing is known), result, intended (the epoch of the lease that
--          intended it), held
SELECT effect.state, effect.result, effect.epoch AS intended,
       EXISTS (SELECT 1 FROM {jobs} AS job
                WHERE job.id = :job AND job.state = 'leased' AND job.token = :token
                  AND job.epoch = :epoch) AS held
  FROM (SELECT 1) AS one
  LEFT JOIN {effects} AS effect
    ON effect.scope = :scope AND effect.digest = :digest AND effect.name = :name
