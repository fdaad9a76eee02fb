-- Effects know the event that they belong to, by the name that is the same when the event was
-- forgotten and received again: they outlive every job of it, not only the one that came first.
-- Null: the job was not for an event.
ALTER TABLE {effects} ADD COLUMN event_digest BLOB;

-- What jobs that may still run have left behind already.
UPDATE {effects}
   SET event_digest = (SELECT event.digest
                         FROM {jobs} AS job
                         JOIN {events} AS event ON event.id = job.event
                        WHERE job.id = {effects}.job);
