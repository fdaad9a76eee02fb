-- Forget a bounded number of claims whose time is over, but none whose event has work left.
-- params: limit, now
-- columns: digest
DELETE FROM {claims}
 WHERE (scope, digest) IN (
        SELECT scope, digest
          FROM {claims}
         WHERE expires_at <= :now
           AND (state = 'done' OR lease_until <= :now)
           AND NOT EXISTS (
                SELECT 1 FROM {events} AS event JOIN {jobs} AS job ON job.event = event.id
                 WHERE event.scope = {claims}.scope AND event.digest = {claims}.digest)
           AND NOT EXISTS (
                SELECT 1 FROM {events} AS event JOIN {jobs} AS job ON job.event = event.id
                 WHERE event.scope = {claims}.scope AND event.replay = {claims}.digest)
         ORDER BY expires_at
         LIMIT :limit)
RETURNING digest
