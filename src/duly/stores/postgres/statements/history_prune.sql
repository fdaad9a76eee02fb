-- Delete a bounded number of rows of the history that are older than asked.
-- params: age (microseconds), limit, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {history}
 WHERE ctid = ANY (ARRAY (
        SELECT history.ctid
          FROM {history} AS history, moment
         WHERE history.ended <= moment.now - :age::bigint * interval '1 microsecond'
         ORDER BY history.ended
         LIMIT :limit::bigint
           FOR UPDATE OF history SKIP LOCKED))
RETURNING job::text AS id
