-- Delete a bounded number of counters of minutes long ago.
-- params: age (microseconds), limit, now
-- columns: name
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {counters}
 WHERE ctid = ANY (ARRAY (
        SELECT counter.ctid
          FROM {counters} AS counter, moment
         WHERE counter.bucket <= moment.now - :age::bigint * interval '1 microsecond'
         LIMIT :limit::bigint
           FOR UPDATE OF counter SKIP LOCKED))
RETURNING name
