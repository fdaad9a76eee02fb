-- End many leases of messages that were sent, each under its own fence: they become rows of the
-- history, and then leave the table. A lease without a row in the answer was lost.
-- params: each (JSON arrays: id, token in hexadecimal, epoch, ran in microseconds), now
-- columns: id
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT message.id, message.scope, message.destination, NULL, 'sent', :now - (each.value ->> 3), :now,
       message.attempts + message.rescues + 1
  FROM json_each(:each) AS each
  JOIN {outbox} AS message ON message.id = each.value ->> 0
 WHERE message.state = 'leased' AND lower(hex(message.token)) = each.value ->> 1
   AND message.epoch = CAST(each.value ->> 2 AS INTEGER)
RETURNING job AS id
