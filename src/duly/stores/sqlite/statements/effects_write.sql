-- Record the outcome of an effect, or that it is intended once more, if the job's lease still
-- holds. No row back: it does not, or the effect is done already.
-- params: scope, digest, name, state, result, job, token, epoch, now
-- columns: name
UPDATE {effects}
   SET state = :state, result = :result, at = :now, epoch = :epoch
 WHERE scope = :scope AND digest = :digest AND name = :name AND state <> 'done'
   AND EXISTS (SELECT 1 FROM {jobs} AS job
                WHERE job.id = :job AND job.state = 'leased' AND job.token = :token
                  AND job.epoch = :epoch)
RETURNING name
