-- Claim each of many distinct keys that is free, in the order given. Callers sort, so that two
-- batches meet their keys in the same order and cannot deadlock.
-- params: scope[], digest[], key_text[], fingerprint[] (empty for none), ttl, state, token, lease,
--         now, wait
-- columns: digest, epoch, first_seen
WITH {moment}
INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                      state, token, epoch, lease_until)
SELECT wanted.scope, wanted.digest, wanted.key_text, nullif(wanted.fingerprint, ''::bytea),
       moment.now, moment.now + :ttl::bigint * interval '1 microsecond',
       :state::text, :token::bytea, 1,
       moment.now + :lease::bigint * interval '1 microsecond'
  FROM moment,
       unnest(:scope::text[], :digest::bytea[], :key_text::text[], :fingerprint::bytea[])
           WITH ORDINALITY AS wanted (scope, digest, key_text, fingerprint, place)
 ORDER BY wanted.place
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING digest, epoch, (extract(epoch FROM first_seen) * 1000000)::bigint AS first_seen
