-- Delete a bounded number of claims that have expired, but none whose event, or whose job or
-- message (the token is its id), has work left. Rows that another transaction is taking over are
-- skipped; the condition is checked again on the locked row, so a claim is either deleted or
-- taken over, never both.
-- params: limit, now
-- columns: digest
WITH moment AS MATERIALIZED (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {claims}
 WHERE ctid = ANY (ARRAY (
        SELECT ctid
          FROM {claims}
         WHERE expires_at <= (SELECT moment.now FROM moment)
           AND (state = 'done' OR lease_until <= (SELECT moment.now FROM moment))
           AND NOT EXISTS (
                SELECT FROM {events} AS event JOIN {jobs} AS job ON job.event = event.id
                 WHERE event.scope = {claims}.scope AND event.digest = {claims}.digest)
           AND NOT EXISTS (
                SELECT FROM {events} AS event JOIN {jobs} AS job ON job.event = event.id
                 WHERE event.scope = {claims}.scope AND event.replay = {claims}.digest)
           AND NOT EXISTS (
                SELECT FROM {jobs} AS job
                 WHERE job.id = CASE octet_length({claims}.token)
                                WHEN 16 THEN encode({claims}.token, 'hex')::uuid END
                   AND job.state IN ('ready', 'leased'))
           AND NOT EXISTS (
                SELECT FROM {outbox} AS message
                 WHERE message.id = CASE octet_length({claims}.token)
                                    WHEN 16 THEN encode({claims}.token, 'hex')::uuid END
                   AND message.state IN ('ready', 'leased'))
         ORDER BY expires_at
         LIMIT :limit::bigint
           FOR UPDATE SKIP LOCKED))
RETURNING digest
