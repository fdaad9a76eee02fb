-- End many leases of messages that must be sent again, each under its own fence. A lease without
-- a row in the answer was lost. Without a delay a message keeps its place in the queue.
-- params: each (JSON arrays: id, token in hexadecimal, epoch, delay in microseconds, burnt, rescued,
--         error, empty to keep the last), now
-- columns: id
UPDATE {outbox} AS message
   SET state = 'ready',
       run_at = CASE CAST(each.value ->> 3 AS INTEGER) WHEN 0 THEN message.run_at
                ELSE :now + CAST(each.value ->> 3 AS INTEGER) END,
       waiting = CAST(each.value ->> 3 AS INTEGER) > 0,
       attempts = message.attempts + CAST(each.value ->> 4 AS INTEGER),
       rescues = message.rescues + CAST(each.value ->> 5 AS INTEGER),
       token = NULL, lease_until = NULL,
       last_error = coalesce(CAST(nullif(each.value ->> 6, '') AS BLOB), message.last_error)
  FROM json_each(:each) AS each
 WHERE message.id = each.value ->> 0 AND message.state = 'leased'
   AND lower(hex(message.token)) = each.value ->> 1
   AND message.epoch = CAST(each.value ->> 2 AS INTEGER)
RETURNING id
