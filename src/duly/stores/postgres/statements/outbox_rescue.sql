-- Take back a bounded number of messages whose lease has run out: their relay crashed or stalled,
-- and whether they were sent is unknown. They are sent again, with the same id. A row that is
-- being settled is locked, and left alone. Each comes back later than the last time, after a
-- random wait; at the last rescue it is dead.
-- params: limit, most (rescues), waits (JSON array: the longest wait in microseconds after each
--         rescue), error, now
-- columns: id, destination, state, rescues
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
chosen AS MATERIALIZED (
    SELECT message.id
      FROM {outbox} AS message, moment
     WHERE message.state = 'leased' AND message.lease_until <= moment.now
     ORDER BY message.lease_until
     LIMIT :limit::bigint
       FOR UPDATE OF message SKIP LOCKED
)
UPDATE {outbox} AS message
   SET rescues = message.rescues + 1, token = NULL, lease_until = NULL,
       state = CASE WHEN message.rescues + 1 >= :most::integer THEN 'dead' ELSE 'ready' END,
       dead_at = CASE WHEN message.rescues + 1 >= :most::integer THEN moment.now END,
       waiting = message.rescues + 1 < :most::integer,
       run_at = moment.now + interval '1 microsecond' * (random()
                * (:waits::json ->> least(message.rescues, json_array_length(:waits::json) - 1)
                  )::bigint),
       last_error = :error::bytea
  FROM chosen, moment
 WHERE message.id = chosen.id AND message.state = 'leased'
RETURNING message.id::text, message.destination, message.state, message.rescues
