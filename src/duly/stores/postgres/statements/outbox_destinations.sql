-- The next destinations, by name, that have messages to send now, from one of them on. The index is
-- asked once for each, however many messages wait there.
-- params: after (a destination, or an empty text to begin), skipped (JSON array), limit
-- columns: destination
WITH RECURSIVE known (destination) AS (
    SELECT min(message.destination)
      FROM {outbox} AS message
     WHERE message.state = 'ready' AND NOT message.waiting
       AND message.destination > :after::text COLLATE "C"
     UNION ALL
    SELECT (SELECT min(message.destination)
              FROM {outbox} AS message
             WHERE message.state = 'ready' AND NOT message.waiting
               AND message.destination > known.destination)
      FROM known
     WHERE known.destination IS NOT NULL
)
SELECT destination
  FROM known
 WHERE destination IS NOT NULL
   AND destination NOT IN (SELECT value FROM json_array_elements_text(:skipped::json) AS each (value))
 LIMIT :limit::bigint
