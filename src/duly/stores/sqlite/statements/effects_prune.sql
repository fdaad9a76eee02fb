-- Delete a bounded number of effects that are older than asked and whose job is not in the table.
-- params: age (microseconds), limit, now
-- columns: name
DELETE FROM {effects}
 WHERE (scope, digest, name) IN (
        SELECT scope, digest, name FROM {effects} AS effect
         WHERE effect.at <= :now - :age
           AND NOT EXISTS (SELECT 1 FROM {jobs} AS job WHERE job.id = effect.job)
         ORDER BY effect.at LIMIT :limit)
RETURNING name
