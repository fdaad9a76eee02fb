-- Delete a bounded number of bodies whose retention is over. The rest of the row stays until it
-- is due; so does the body of an event with work left. What waits for an operator is never due.
-- params: limit, now
-- columns: id
UPDATE {events}
   SET body = NULL, due_at = expires_at
 WHERE id IN (
        SELECT event.id
          FROM {events} AS event
         WHERE event.due_at <= :now AND event.body_until <= :now
           AND event.body IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM {jobs} AS job WHERE job.event = event.id)
         ORDER BY event.due_at
         LIMIT :limit)
RETURNING id
