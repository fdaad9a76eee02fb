-- End a lease and keep the job: it can be taken again later. No row back: the lease was lost.
-- params: id, token, epoch, delay (microseconds), burnt (attempts used up by this run), rescued
--         (rescues likewise), parked, error (null: keep the last), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {jobs} AS job
   SET state = 'ready', run_at = moment.now + :delay::bigint * interval '1 microsecond',
       attempts = job.attempts + :burnt::integer, rescues = job.rescues + :rescued::integer,
       waiting = :delay::bigint > 0 AND job.rescues + :rescued::integer = 0,
       parked = :parked::boolean, token = NULL, worker = NULL, deadline = NULL,
       last_error = coalesce(:error::bytea, job.last_error)
  FROM moment
 WHERE job.id = :id::uuid AND job.state = 'leased' AND job.token = :token::bytea
   AND job.epoch = :epoch::bigint
RETURNING job.id::text
