-- Record that an effect is about to happen, if the job's lease still holds and nothing is
-- recorded of it. No row back: the lease was lost, or there is a record; read it in the next
-- statement.
-- params: scope, digest, name, key, job, token, epoch, now
-- columns: name
INSERT INTO {effects} (scope, digest, name, state, key, job, epoch, at, event_digest)
SELECT :scope, :digest, :name, 'intended', :key, job.id, job.epoch, :now,
       (SELECT event.digest FROM {events} AS event WHERE event.id = job.event)
  FROM {jobs} AS job
 WHERE job.id = :job AND job.state = 'leased' AND job.token = :token AND job.epoch = :epoch
    ON CONFLICT (scope, digest, name) DO NOTHING
RETURNING name
