-- Delete a bounded number of claims that have expired, but none whose event, or whose job or
-- message (the token is its id), has work left.
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
           AND NOT EXISTS (
                SELECT 1 FROM {jobs} AS job
                 WHERE job.id = lower(substr(hex({claims}.token), 1, 8)
                                      || '-' || substr(hex({claims}.token), 9, 4)
                                      || '-' || substr(hex({claims}.token), 13, 4)
                                      || '-' || substr(hex({claims}.token), 17, 4)
                                      || '-' || substr(hex({claims}.token), 21))
                   AND job.state IN ('ready', 'leased'))
           AND NOT EXISTS (
                SELECT 1 FROM {outbox} AS message
                 WHERE message.id = lower(substr(hex({claims}.token), 1, 8)
                                          || '-' || substr(hex({claims}.token), 9, 4)
                                          || '-' || substr(hex({claims}.token), 13, 4)
                                          || '-' || substr(hex({claims}.token), 17, 4)
                                          || '-' || substr(hex({claims}.token), 21))
                   AND message.state IN ('ready', 'leased'))
         ORDER BY expires_at
         LIMIT :limit)
RETURNING digest
