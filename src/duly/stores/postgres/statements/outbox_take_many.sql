-- Lease a bounded number of messages of each destination, the oldest first. Rows that other
-- transactions have locked are skipped, never waited for. The epoch grows, the token is new for
-- each. The caller says where its last batch of a destination ended: what was sent before that
-- stays in the index for as long as any transaction elsewhere could see it.
-- params: destination, room (how many), since (the time to begin after, empty for none), last (the
--         id there, or empty; arrays of text), lease (microseconds), now
-- columns: id, scope, destination, request, body, signer, attempts, rescues, max_attempts, token,
--          epoch, created_at, run_at, due_at, taken_at (times in microseconds)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
chosen AS MATERIALIZED (
    SELECT picked.id
      FROM unnest(:destination::text[], :room::text[], :since::text[], :last::text[])
           AS each (destination, room, since, last),
   LATERAL (SELECT message.id
              FROM {outbox} AS message
             WHERE message.state = 'ready' AND NOT message.waiting
               AND message.destination = each.destination
               AND (message.run_at, message.id) > (
                    coalesce(timestamptz 'epoch'
                             + nullif(each.since, '')::bigint * interval '1 microsecond',
                             '-infinity'),
                    coalesce(nullif(each.last, '')::uuid, '00000000-0000-0000-0000-000000000000'))
             ORDER BY message.run_at, message.id
             LIMIT each.room::bigint
               FOR UPDATE OF message SKIP LOCKED) AS picked
)
UPDATE {outbox} AS message
   SET state = 'leased',
       due_at = coalesce(message.due_at, greatest(message.run_at, message.created_at)),
       epoch = message.epoch + 1, token = uuid_send(gen_random_uuid()),
       lease_until = moment.now + :lease::bigint * interval '1 microsecond'
  FROM chosen, moment
 WHERE message.id = chosen.id
RETURNING message.id::text AS id, message.scope, message.destination, message.request,
          message.body, message.signer, message.attempts, message.rescues, message.max_attempts,
          message.token, message.epoch,
          (extract(epoch FROM message.created_at) * 1000000)::bigint AS created_at,
          (extract(epoch FROM message.run_at) * 1000000)::bigint AS run_at,
          (extract(epoch FROM message.due_at) * 1000000)::bigint AS due_at,
          (extract(epoch FROM moment.now) * 1000000)::bigint AS taken_at
