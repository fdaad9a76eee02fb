-- Delete a bounded number of arrivals noted longer ago than their time.
-- params: age (microseconds), limit, now
-- columns: event
DELETE FROM {deliveries}
 WHERE rowid IN (
        SELECT rowid
          FROM {deliveries}
         WHERE at <= :now - :age
         ORDER BY at
         LIMIT :limit)
RETURNING event
