-- Delete a bounded number of events whose retention is over and that have no work left.
-- params: limit, now
-- columns: id
DELETE FROM {events}
 WHERE id IN (
        SELECT event.id
          FROM {events} AS event
         WHERE event.due_at <= :now AND event.expires_at <= :now
           AND NOT EXISTS (SELECT 1 FROM {jobs} AS job WHERE job.event = event.id)
         ORDER BY event.due_at
         LIMIT :limit)
RETURNING id
