-- Whether a message could be sent now, and no relay was seen within its lease. A relay has a row
-- among the workers, without queues.
-- params: now
-- columns: unattended
SELECT (EXISTS (SELECT 1 FROM {outbox} WHERE state = 'ready' AND waiting = 0)
        OR EXISTS (SELECT 1 FROM {outbox}
                    WHERE state = 'ready' AND waiting = 1 AND run_at <= :now))
       AND NOT EXISTS (SELECT 1 FROM {workers} WHERE queues = '[]' AND seen_at > :now - lease)
       AS unattended
