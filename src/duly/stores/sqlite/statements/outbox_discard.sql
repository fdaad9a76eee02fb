-- Record in the history that a dead message is deleted for good; outbox_remove_many deletes it.
-- No row back: it is not dead.
-- params: id, now
-- columns: id
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT id, scope, destination, NULL, 'discarded', NULL, :now, attempts + rescues
  FROM {outbox}
 WHERE id = :id AND state = 'dead'
RETURNING job AS id
