-- Claim each of many distinct keys of one scope that is free, in the order given, and count them.
-- Callers sort, so that two batches meet their keys in the same order and cannot deadlock. Where
-- not all were free, the next statement reads the claims; the token tells those that were made.
-- params: scope, digest[], key_text[], ttl, state, token, lease, now, wait
-- columns: made, first_seen
WITH {moment}, made AS (
INSERT INTO {claims} (scope, digest, key_text, first_seen, expires_at,
                      state, token, epoch, lease_until)
SELECT :scope::text, wanted.digest, wanted.key_text,
       moment.now, moment.now + :ttl::bigint * interval '1 microsecond',
       :state::text, :token::bytea, 1,
       moment.now + :lease::bigint * interval '1 microsecond'
  FROM moment,
       unnest(:digest::bytea[], :key_text::text[])
           WITH ORDINALITY AS wanted (digest, key_text, place)
 ORDER BY wanted.place
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING 1
)
SELECT (SELECT count(*) FROM made) AS made,
       (extract(epoch FROM moment.now) * 1000000)::bigint AS first_seen
  FROM moment
