-- Insert one event with its first delivery; its claim was made in the same transaction.
-- params: id, scope, digest, replay (null where the id is signed), source, event_id, type, flags,
--         event_time, headers, body, fingerprint, body_ttl, ttl, outcome, secret, remote, now
-- columns: id
INSERT INTO {events} (id, scope, digest, replay, source, event_id, type, flags, received_at,
                      event_time, headers, body, fingerprint, body_until, expires_at, due_at,
                      outcome, secret, remote)
VALUES (:id, :scope, :digest, :replay, :source, :event_id, :type, :flags, :now,
        :event_time, :headers, :body, :fingerprint, :now + :body_ttl, :now + :ttl,
        :now + min(coalesce(:body_ttl, :ttl), coalesce(:ttl, :body_ttl)),
        :outcome, :secret, :remote)
RETURNING id
