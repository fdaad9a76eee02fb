-- End many leases of messages that are given up, each under its own fence. A lease without a row in
-- the answer was lost.
-- params: each (JSON arrays: id, token in hexadecimal, epoch, burnt, rescued, error), now
-- columns: id
UPDATE {outbox} AS message
   SET state = 'dead', dead_at = :now,
       attempts = message.attempts + CAST(each.value ->> 3 AS INTEGER),
       rescues = message.rescues + CAST(each.value ->> 4 AS INTEGER),
       token = NULL, lease_until = NULL,
       last_error = coalesce(CAST(nullif(each.value ->> 5, '') AS BLOB), message.last_error)
  FROM json_each(:each) AS each
 WHERE message.id = each.value ->> 0 AND message.state = 'leased'
   AND lower(hex(message.token)) = each.value ->> 1
   AND message.epoch = CAST(each.value ->> 2 AS INTEGER)
RETURNING id
