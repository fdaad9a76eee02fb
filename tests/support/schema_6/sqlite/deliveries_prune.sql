-- Delete the recorded deliveries of deleted events.
-- params: events (JSON: their ids)
-- columns: event
DELETE FROM {deliveries}
 WHERE event IN (SELECT value FROM json_each(:events))
RETURNING event
