-- Delete the record of an effect that certainly did not happen, if the job's lease still holds.
-- params: scope, digest, name, job, token, epoch
-- columns: name
DELETE FROM {effects}
 WHERE scope = :scope AND digest = :digest AND name = :name AND state <> 'done'
   AND EXISTS (SELECT 1 FROM {jobs} AS job
                WHERE job.id = :job AND job.state = 'leased' AND job.token = :token
                  AND job.epoch = :epoch)
RETURNING name
