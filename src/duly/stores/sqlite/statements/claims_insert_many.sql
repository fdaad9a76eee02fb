-- Claim each of many distinct keys that is free.
-- params: each (JSON: scope, key_text), digest[] (32 bytes for each key, end to end),
--         fingerprint[] (the same, zeros for none), ttl, state, token, lease, now
-- columns: digest, epoch, first_seen
INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                      state, token, epoch, lease_until)
SELECT json_extract(wanted.value, '$[0]'), substr(:digest, 1 + 32 * wanted.key, 32),
       json_extract(wanted.value, '$[1]'),
       nullif(substr(:fingerprint, 1 + 32 * wanted.key, 32), zeroblob(32)),
       :now, :now + :ttl, :state, :token, 1, :now + :lease
  FROM json_each(:each) AS wanted
 WHERE true -- without it SQLite takes ON CONFLICT for the condition of a join
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING digest, epoch, first_seen
