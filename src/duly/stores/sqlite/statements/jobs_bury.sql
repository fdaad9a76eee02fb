-- End a lease as dead: the job waits, with its last error, for an operator. No row back: the
-- lease was lost.
-- params: id, token, epoch, burnt, rescued, error, now
-- columns: id
UPDATE {jobs}
   SET state = 'dead', dead_at = :now, attempts = attempts + :burnt, rescues = rescues + :rescued,
       token = NULL, worker = NULL, deadline = NULL, last_error = coalesce(:error, last_error)
 WHERE id = :id AND state = 'leased' AND token = :token AND epoch = :epoch
RETURNING id
