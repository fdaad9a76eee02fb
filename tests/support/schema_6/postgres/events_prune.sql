-- Delete a bounded number of events whose retention is over and that have no work left.
-- params: limit, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {events}
 WHERE id = ANY (ARRAY (
        SELECT event.id
          FROM {events} AS event, moment
         WHERE event.due_at <= moment.now AND event.expires_at <= moment.now
           AND NOT EXISTS (SELECT FROM {jobs} AS job WHERE job.event = event.id)
         ORDER BY event.due_at
         LIMIT :limit::bigint
           FOR UPDATE OF event SKIP LOCKED))
RETURNING id::text
