-- Delete the noted arrivals of events that are gone.
-- params: events (JSON: their ids)
-- columns: event
DELETE FROM {deliveries}
 WHERE event IN (SELECT value FROM json_each(:events))
RETURNING event
