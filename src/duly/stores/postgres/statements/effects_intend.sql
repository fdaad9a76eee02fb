-- Record that an effect is about to happen, if the job's lease still holds and nothing is
-- recorded of it. No row back: the lease was lost, or there is a record; read it in the next
-- statement.
-- params: scope, digest, name, key, job, token, epoch, now
-- columns: name
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {effects} (scope, digest, name, state, key, job, epoch, at, event_digest)
SELECT :scope::text, :digest::bytea, :name::text, 'intended', :key::text, job.id, job.epoch,
       moment.now, (SELECT event.digest FROM {events} AS event WHERE event.id = job.event)
  FROM {jobs} AS job, moment
 WHERE job.id = :job::uuid AND job.state = 'leased' AND job.token = :token::bytea
   AND job.epoch = :epoch::bigint
   FOR NO KEY UPDATE OF job
    ON CONFLICT (scope, digest, name) DO NOTHING
RETURNING name
