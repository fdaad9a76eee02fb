-- Whether a message can be sent now, whether a lease has run out, and how long until there is more to
-- do: one that waits can be sent, or a lease that is held runs out.
-- params: now
-- columns: due, lost, next_in (microseconds; null where nothing waits)
SELECT due, lost, CASE WHEN next < 9223372036854775807 THEN next - :now END AS next_in
  FROM (SELECT EXISTS (SELECT 1 FROM {outbox} WHERE state = 'ready' AND waiting = 0) AS due,
               EXISTS (SELECT 1 FROM {outbox}
                        WHERE state = 'leased' AND lease_until <= :now) AS lost,
               min((SELECT coalesce(min(run_at), 9223372036854775807) FROM {outbox}
                     WHERE state = 'ready' AND waiting = 1),
                   (SELECT coalesce(min(lease_until), 9223372036854775807) FROM {outbox}
                     WHERE state = 'leased')) AS next)
