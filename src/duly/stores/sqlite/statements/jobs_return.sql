-- End a lease and keep the job: it can be taken again later. No row back: the lease was lost.
-- params: id, token, epoch, delay (microseconds), burnt (attempts used up by this run), rescued
--         (rescues likewise), parked, error (null: keep the last), now
-- columns: id
UPDATE {jobs}
   SET state = 'ready', run_at = :now + :delay, attempts = attempts + :burnt,
       rescues = rescues + :rescued, waiting = :delay > 0 AND rescues + :rescued = 0,
       parked = :parked, token = NULL, worker = NULL, deadline = NULL,
       last_error = coalesce(:error, last_error)
 WHERE id = :id AND state = 'leased' AND token = :token AND epoch = :epoch
RETURNING id
