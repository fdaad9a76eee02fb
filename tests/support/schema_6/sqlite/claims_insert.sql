-- Claim a key that is free. No row back: it is claimed; read the claim in the next statement.
-- params: scope, digest, key_text, fingerprint, ttl, state, token, lease, now
-- columns: digest, epoch, first_seen
INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                      state, token, epoch, lease_until)
VALUES (:scope, :digest, :key_text, :fingerprint, :now, :now + :ttl,
        :state, :token, 1, :now + :lease)
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING digest, epoch, first_seen
