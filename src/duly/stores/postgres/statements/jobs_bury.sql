-- End a lease as dead: the job waits, with its last error, for an operator. No row back: the
-- lease was lost.
-- params: id, token, epoch, burnt, rescued, error, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {jobs} AS job
   SET state = 'dead', dead_at = moment.now, attempts = job.attempts + :burnt::integer,
       rescues = job.rescues + :rescued::integer, token = NULL, worker = NULL, deadline = NULL,
       last_error = coalesce(:error::bytea, job.last_error)
  FROM moment
 WHERE job.id = :id::uuid AND job.state = 'leased' AND job.token = :token::bytea
   AND job.epoch = :epoch::bigint
RETURNING job.id::text
