-- Delete a bounded number of effects that are older than asked and whose job has left the table,
-- and with it every other job of their event. An event that was forgotten, or whose claim
-- expired, and that was received again has a new job, which knows the same effects.
-- params: age (microseconds), limit, now
-- columns: name
DELETE FROM {effects}
 WHERE (scope, digest, name) IN (
        SELECT scope, digest, name FROM {effects} AS effect
         WHERE effect.at <= :now - :age
           AND NOT EXISTS (SELECT 1 FROM {jobs} AS job WHERE job.id = effect.job)
           AND NOT EXISTS (SELECT 1
                             FROM {events} AS event
                             JOIN {jobs} AS job ON job.event = event.id
                            WHERE event.scope = effect.scope
                              AND event.digest = effect.event_digest)
         ORDER BY effect.at LIMIT :limit)
RETURNING name
