-- Delete a bounded number of counters of minutes long ago.
-- params: age (microseconds), limit, now
-- columns: name
DELETE FROM {counters}
 WHERE (scope, name, bucket) IN (
        SELECT scope, name, bucket
          FROM {counters}
         WHERE bucket <= :now - :age
         LIMIT :limit)
RETURNING name
