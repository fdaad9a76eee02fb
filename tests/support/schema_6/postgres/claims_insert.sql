-- Claim a key that is free. No row back: it is claimed; read the claim in the next statement,
-- because this one would not see the row it may have waited for. Never DO UPDATE: that would lock
-- the row of a long-finished event and make its duplicates wait for one another.
-- params: scope, digest, key_text, fingerprint, ttl, state, token, lease, now, wait
-- columns: digest, epoch, first_seen
WITH moment AS MATERIALIZED (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now,
           CASE WHEN :wait::text IS NOT NULL
                 AND set_config('duly.lock_timeout', current_setting('lock_timeout'), true) <> ''
                THEN set_config('lock_timeout', :wait::text, true) END AS bound
)
INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                      state, token, epoch, lease_until)
SELECT :scope::text, :digest::bytea, :key_text::text, :fingerprint::bytea, moment.now,
       moment.now + :ttl::bigint * interval '1 microsecond',
       :state::text, :token::bytea, 1,
       moment.now + :lease::bigint * interval '1 microsecond'
  FROM moment
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING digest, epoch, (extract(epoch FROM first_seen) * 1000000)::bigint AS first_seen
