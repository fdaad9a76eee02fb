-- The events that jobs are about, with what was kept of them.
-- params: ids (JSON array)
-- columns: id, scope, source, event_id, type, received_at, event_time (microseconds), headers, body
SELECT event.id, scope, source, event_id, event.type AS type, received_at, event_time, headers, body
  FROM json_each(:ids) AS wanted
  JOIN {events} AS event ON event.id = wanted.value
