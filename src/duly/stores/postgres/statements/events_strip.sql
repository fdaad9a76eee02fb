-- Delete a bounded number of bodies whose retention is over. The rest of the row stays until it
-- is due; so does the body of an event with work left. What waits for an operator is never due.
-- params: limit, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {events}
   SET body = NULL, due_at = expires_at
 WHERE id = ANY (ARRAY (
        SELECT event.id
          FROM {events} AS event, moment
         WHERE event.due_at <= moment.now AND event.body_until <= moment.now
           AND event.body IS NOT NULL
           AND NOT EXISTS (SELECT FROM {jobs} AS job WHERE job.event = event.id)
         ORDER BY event.due_at
         LIMIT :limit::bigint
           FOR UPDATE OF event SKIP LOCKED))
RETURNING id::text
