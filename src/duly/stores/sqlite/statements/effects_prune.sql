-- Delete a bounded number of effects that are older than asked and whose job is not in the table, nor
-- another one of their event: it has one that knows the same effects when it was forgotten, or its
-- claim ran out, and it was received again.
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
