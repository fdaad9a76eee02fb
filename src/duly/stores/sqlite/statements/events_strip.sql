-- Remove a bounded number of bodies whose time is over. The rest of the row stays; so does the
-- body of an event with work left, and of one that waits for a person.
-- params: limit, now
-- columns: id
UPDATE {events}
   SET body = NULL
 WHERE id IN (
        SELECT event.id
          FROM {events} AS event
         WHERE event.body IS NOT NULL AND event.body_until <= :now
           AND event.flags <> 'too_old'
           AND NOT EXISTS (SELECT 1 FROM {jobs} AS job WHERE job.event = event.id)
         ORDER BY event.body_until
         LIMIT :limit)
RETURNING id
