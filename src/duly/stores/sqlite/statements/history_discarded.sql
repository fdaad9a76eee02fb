-- Record in the history that a dead job was discarded, before its row is deleted.
-- params: id, now
-- columns: id
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT id, scope, name, event, 'discarded', NULL, :now, attempts
  FROM {jobs}
 WHERE id = :id AND state = 'dead'
RETURNING job AS id
