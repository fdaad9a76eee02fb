-- Move a bounded number of messages whose time has come to where relays look.
-- params: limit, now
-- columns: id
WITH moment AS MATERIALIZED (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
chosen AS MATERIALIZED (
    SELECT message.id
      FROM {outbox} AS message
     WHERE message.state = 'ready' AND message.waiting
       AND message.run_at <= (SELECT moment.now FROM moment)
     ORDER BY message.run_at
     LIMIT :limit::bigint
       FOR UPDATE OF message SKIP LOCKED
)
UPDATE {outbox} AS message SET waiting = false
 WHERE message.id = ANY (ARRAY (SELECT chosen.id FROM chosen))
RETURNING message.id::text
