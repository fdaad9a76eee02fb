-- End many leases of messages that must be sent again, each under its own fence. A lease without
-- a row in the answer was lost. Without a delay a message keeps its place in the queue.
-- params: id, token (hexadecimal), epoch, delay (microseconds), burnt, rescued, error (empty to keep
--         the last; arrays of text), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT each.id::uuid AS id, decode(each.token, 'hex') AS token, each.epoch::bigint AS epoch,
           each.delay::bigint AS delay, each.burnt::integer AS burnt,
           each.rescued::integer AS rescued,
           convert_to(nullif(each.error, ''), 'UTF8') AS error
      FROM unnest(:id::text[], :token::text[], :epoch::text[], :delay::text[], :burnt::text[],
                  :rescued::text[], :error::text[])
           AS each (id, token, epoch, delay, burnt, rescued, error)
)
UPDATE {outbox} AS message
   SET state = 'ready',
       run_at = CASE WHEN given.delay = 0 THEN message.run_at
                     ELSE moment.now + given.delay * interval '1 microsecond' END,
       waiting = given.delay > 0, attempts = message.attempts + given.burnt,
       rescues = message.rescues + given.rescued, token = NULL, lease_until = NULL,
       last_error = coalesce(given.error, message.last_error)
  FROM given, moment
 WHERE message.id = given.id AND message.state NOT IN ('ready', 'dead')
   AND message.token = given.token AND message.epoch = given.epoch
RETURNING message.id::text
