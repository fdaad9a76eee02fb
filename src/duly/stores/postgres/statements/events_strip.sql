-- Remove a bounded number of bodies whose time is over. The rest of the row stays; so does the
-- body of an event with work left, and of one that waits for a person.
-- params: limit, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {events}
   SET body = NULL
 WHERE id = ANY (ARRAY (
        SELECT event.id
          FROM {events} AS event, moment
         WHERE event.body IS NOT NULL AND event.body_until <= moment.now
           AND event.flags <> 'too_old'
           AND NOT EXISTS (SELECT FROM {jobs} AS job WHERE job.event = event.id)
         ORDER BY event.body_until
         LIMIT :limit::bigint
           FOR UPDATE OF event SKIP LOCKED))
RETURNING id::text
