-- Insert one event with its first delivery; its claim was made in the same transaction.
-- params: id, scope, digest, replay (null where the id is signed), source, event_id, type, flags,
--         event_time, headers, body, fingerprint, body_ttl, ttl, outcome, secret, remote, now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
INSERT INTO {events} (id, scope, digest, replay, source, event_id, type, flags, received_at,
                      event_time, headers, body, fingerprint, body_until, expires_at, due_at,
                      outcome, secret, remote)
SELECT :id::uuid, :scope::text, :digest::bytea, :replay::bytea, :source::text, :event_id::text,
       :type::text, :flags::text, moment.now,
       timestamptz 'epoch' + :event_time::bigint * interval '1 microsecond',
       :headers::bytea, :body::bytea, :fingerprint::bytea,
       moment.now + :body_ttl::bigint * interval '1 microsecond',
       moment.now + :ttl::bigint * interval '1 microsecond',
       moment.now + least(:body_ttl::bigint, :ttl::bigint) * interval '1 microsecond',
       :outcome::text, :secret::text, :remote::text
  FROM moment
RETURNING id::text
