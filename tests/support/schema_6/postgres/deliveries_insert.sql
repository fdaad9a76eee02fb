-- Record the delivery that made an event.
-- params: event, outcome, secret, remote, now
-- columns: event
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {deliveries} (event, at, outcome, secret, remote)
SELECT :event::uuid, moment.now, :outcome::text, :secret::text, :remote::text
  FROM moment
RETURNING event::text
