-- Stage a message in the open transaction: it exists if that commits. No row back: a rerun after a
-- lost reply found what it had committed.
-- params: id, scope, destination, request, body, signer, delay (microseconds), at
--         (microseconds, or null for the delay), max_attempts, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT now, coalesce(timestamptz 'epoch' + :at::bigint * interval '1 microsecond',
                         now + :delay::bigint * interval '1 microsecond') AS run_at
      FROM moment
)
INSERT INTO {outbox} (id, scope, destination, request, body, signer, state, run_at, waiting,
                      max_attempts, created_at)
SELECT :id::uuid, :scope::text, :destination::text, :request::bytea, :body::bytea,
       :signer::text, 'ready', run_at, run_at > now, :max_attempts::integer, now
  FROM given
    ON CONFLICT (id) DO NOTHING
RETURNING id::text
