-- Delete a bounded number of rows of the history that are older than asked.
-- params: age (microseconds), limit, now
-- columns: id
DELETE FROM {history}
 WHERE rowid IN (SELECT rowid FROM {history} WHERE ended <= :now - :age ORDER BY ended LIMIT :limit)
RETURNING job AS id
