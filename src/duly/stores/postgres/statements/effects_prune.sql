-- Delete a bounded number of effects that are older than asked and whose job is not in the table, nor
-- another one of their event: it has one that knows the same effects when it was forgotten, or its
-- claim ran out, and it was received again.
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
