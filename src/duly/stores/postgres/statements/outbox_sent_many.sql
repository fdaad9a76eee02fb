-- End many leases of messages that were sent, each under its own fence: they leave the table and
-- become rows of the history. A lease without a row in the answer was lost.
-- params: id, token (hexadecimal), epoch, ran (microseconds; arrays of text), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT each.id::uuid AS id, decode(each.token, 'hex') AS token, each.epoch::bigint AS epoch,
           each.ran::bigint * interval '1 microsecond' AS ran
      FROM unnest(:id::text[], :token::text[], :epoch::text[], :ran::text[])
           AS each (id, token, epoch, ran)
),
gone AS (
    DELETE FROM {outbox} AS message
     USING given
     WHERE message.id = given.id AND message.state NOT IN ('ready', 'dead')
       AND message.token = given.token AND message.epoch = given.epoch
    RETURNING message.id, message.scope, message.destination, message.attempts, message.rescues,
              given.ran
)
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT gone.id, scope, destination, NULL, 'sent', moment.now - ran, moment.now,
       attempts + rescues + 1
  FROM gone, moment
RETURNING job::text AS id
