-- Record the delivery that made an event.
-- params: event, outcome, secret, remote, now
-- columns: event
INSERT INTO {deliveries} (event, at, outcome, secret, remote)
VALUES (:event, :now, :outcome, :secret, :remote)
RETURNING event
