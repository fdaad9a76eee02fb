-- End a lease: the job is done, leaves the table, and is recorded in the history. No row back:
-- the lease was lost, and nothing has changed.
-- params: id, token, epoch, outcome, ran (microseconds), now
-- columns: id
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT id, scope, name, event, :outcome, :now - :ran, :now, attempts + 1
  FROM {jobs}
 WHERE id = :id AND state = 'leased' AND token = :token AND epoch = :epoch
RETURNING job AS id
