-- Delete the recorded deliveries of deleted events.
-- params: events (JSON: their ids)
-- columns: event
DELETE FROM {deliveries}
 WHERE event IN (SELECT value::uuid FROM json_array_elements_text(:events::json) AS each (value))
RETURNING event::text
