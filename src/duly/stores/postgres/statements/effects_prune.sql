-- Delete a bounded number of effects that are older than asked and whose job has left the table,
-- and with it every other job of their event. An event that was forgotten, or whose claim
-- expired, and that was received again has a new job, which knows the same effects.
-- params: age (microseconds), limit, now
-- columns: name
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {effects}
 WHERE ctid = ANY (ARRAY (
        SELECT effect.ctid
          FROM {effects} AS effect, moment
         WHERE effect.at <= moment.now - :age::bigint * interval '1 microsecond'
           AND NOT EXISTS (SELECT FROM {jobs} AS job WHERE job.id = effect.job)
           AND NOT EXISTS (SELECT
                             FROM {events} AS event
                             JOIN {jobs} AS job ON job.event = event.id
                            WHERE event.scope = effect.scope
                              AND event.digest = effect.event_digest)
         ORDER BY effect.at
         LIMIT :limit::bigint
           FOR UPDATE OF effect SKIP LOCKED))
RETURNING name
