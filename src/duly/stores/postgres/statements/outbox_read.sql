-- One message in any state: a ready one whose time has not come is waiting, and one that has left
-- the table is what the history says, sent or discarded. No row back: it is not known.
-- params: id, scope, now
-- columns: id, state, destination, request, body, signer, attempts, rescues, max_attempts,
--          created_at, run_at, lease_until, dead_at, ended (microseconds), last_error
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
SELECT message.id::text AS id,
       CASE WHEN message.state = 'ready' AND message.run_at > moment.now THEN 'waiting'
            ELSE message.state END AS state,
       message.destination, message.request, message.body, message.signer, message.attempts,
       message.rescues, message.max_attempts,
       (extract(epoch FROM message.created_at) * 1000000)::bigint AS created_at,
       (extract(epoch FROM message.run_at) * 1000000)::bigint AS run_at,
       (extract(epoch FROM message.lease_until) * 1000000)::bigint AS lease_until,
       (extract(epoch FROM message.dead_at) * 1000000)::bigint AS dead_at,
       NULL::bigint AS ended, message.last_error
  FROM {outbox} AS message, moment
 WHERE message.id = :id::uuid
 UNION ALL
SELECT job::text, outcome, name, NULL, NULL, NULL, attempts, NULL, NULL, NULL, NULL, NULL, NULL,
       (extract(epoch FROM ended) * 1000000)::bigint, NULL
  FROM {history}
 WHERE job = :id::uuid AND scope = :scope::text
