-- Fragment, not a statement: what time it is, and how long this statement may wait for a lock.
-- Time is the database's own unless a test passes one. The bound holds to the end of the
-- transaction, or until wait_end puts back what was set before, which is kept beside it; it is set
-- here, in the same round trip, because a pooler forbids setting it once.
-- params: now (microseconds or null), wait (text for lock_timeout, or null to leave it alone)
moment AS MATERIALIZED (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now,
           CASE WHEN :wait::text IS NOT NULL
                 AND set_config('duly.lock_timeout', current_setting('lock_timeout'), true) <> ''
                THEN set_config('lock_timeout', :wait::text, true) END AS bound
)
