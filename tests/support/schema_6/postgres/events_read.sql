-- The events that jobs are about, with what was kept of them.
-- params: ids (JSON array)
-- columns: id, scope, source, event_id, type, received_at, event_time (microseconds), headers, body
SELECT event.id::text AS id, scope, source, event_id, type,
       (extract(epoch FROM received_at) * 1000000)::bigint AS received_at,
       (extract(epoch FROM event_time) * 1000000)::bigint AS event_time, headers, body
  FROM json_array_elements_text(:ids::json) AS wanted (id)
  JOIN {events} AS event ON event.id = wanted.id::uuid
