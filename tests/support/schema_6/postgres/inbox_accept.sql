-- Receive many distinct events at once: claim each, and where its key was free write its event,
-- its delivery and its jobs. One statement is one transaction, in one round trip. Where the id is
-- not signed, a second claim guards the body: it is made first, all of these before any other,
-- and the event counts only if both were free; a guard without its event fails the whole, so that
-- none is left behind. An event without a row in the answer was known, or is being received
-- elsewhere; the caller reads it in its next statement. What many events have in common is sent
-- once, plain text as JSON, and bytes end to end. A digest covers its scope, so that it alone
-- joins the parts.
-- params: kinds (JSON: scope, source, type, flags, outcome, secret, remote, ttl, body_ttl), each
--         (JSON: place of its kind, event_id, event_time in microseconds, where its blobs start,
--         length of its headers, length of its body), fixed (80 bytes each: digest, fingerprint,
--         id), guards (32 bytes each: the digest of the body's claim, zeros for none; empty if
--         none has one), blobs (headers and body of each), handlers (JSON: name, queue,
--         attempts), jobs (JSON: place of its event, place of its handler), job_ids (16 bytes
--         each), now, wait
-- columns: digest (null where there is none)
WITH moment AS MATERIALIZED (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now,
           CASE WHEN :wait::text IS NOT NULL
                 AND set_config('duly.lock_timeout', current_setting('lock_timeout'), true) <> ''
                THEN set_config('lock_timeout', :wait::text, true) END AS bound
),
shared AS MATERIALIZED (
    SELECT place - 1 AS kind, value ->> 0 AS scope, value ->> 1 AS source, value ->> 2 AS type,
           value ->> 3 AS flags, value ->> 4 AS outcome, value ->> 5 AS secret,
           value ->> 6 AS remote,
           moment.now,
           moment.now + (value ->> 7)::bigint * interval '1 microsecond' AS expires_at,
           moment.now + (value ->> 8)::bigint * interval '1 microsecond' AS body_until
      FROM moment, json_array_elements(:kinds::json) WITH ORDINALITY AS each (value, place)
),
given AS MATERIALIZED (
    SELECT (number - 1)::integer AS place, (value ->> 0)::bigint AS kind, value ->> 1 AS event_id,
           timestamptz 'epoch' + (value ->> 2)::bigint * interval '1 microsecond' AS event_time,
           (value ->> 3)::integer AS start, (value ->> 4)::integer AS head,
           (value ->> 5)::integer AS size
      FROM json_array_elements(:each::json) WITH ORDINALITY AS each (value, number)
),
wanted AS MATERIALIZED (
    SELECT shared.*, place, event_id, event_time,
           substr(:blobs::bytea, start + 1, head) AS headers,
           substr(:blobs::bytea, start + head + 1, size) AS body,
           substr(:fixed::bytea, place * 80 + 1, 32) AS digest,
           substr(:fixed::bytea, place * 80 + 33, 32) AS fingerprint,
           substr(:fixed::bytea, place * 80 + 65, 16) AS token,
           encode(substr(:fixed::bytea, place * 80 + 65, 16), 'hex')::uuid AS id,
           nullif(nullif(substr(:guards::bytea, place * 32 + 1, 32), ''::bytea),
                  decode(repeat('00', 32), 'hex')) AS replay
      FROM given JOIN shared USING (kind)
),
guarded AS (
    INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                          state, token, epoch)
    SELECT scope, replay, left(event_id, 120), fingerprint, now, expires_at, 'done', token, 1
      FROM wanted
     WHERE replay IS NOT NULL
       AND NOT EXISTS (SELECT
                         FROM {claims} AS known
                        WHERE known.scope = wanted.scope AND known.digest = wanted.digest)
     ORDER BY replay
        ON CONFLICT (scope, digest) DO NOTHING
    RETURNING digest
),
claimed AS (
    INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                          state, token, epoch)
    SELECT wanted.scope, wanted.digest, left(event_id, 120), fingerprint, now, expires_at,
           'done', token, 1
      FROM wanted
      LEFT JOIN guarded ON guarded.digest = wanted.replay
     WHERE wanted.replay IS NULL OR guarded.digest IS NOT NULL
     ORDER BY wanted.digest
        ON CONFLICT (scope, digest) DO NOTHING
    RETURNING scope, digest
),
new AS MATERIALIZED (
    SELECT wanted.* FROM wanted JOIN claimed USING (scope, digest)
),
kept AS (
    INSERT INTO {events} (id, scope, digest, replay, source, event_id, type, flags, received_at,
                          event_time, headers, body, fingerprint, body_until, expires_at,
                          due_at)
    SELECT id, scope, digest, replay, source, event_id, type, flags, now,
           event_time, headers, body, fingerprint, body_until, expires_at,
           least(body_until, expires_at)
      FROM new
),
noted AS (
    INSERT INTO {deliveries} (event, at, outcome, secret, remote)
    SELECT id, now, outcome, secret, remote
      FROM new
),
made AS (
    INSERT INTO {jobs} (id, scope, name, queue, event, state, run_at, priority, attempts, rescues,
                        max_attempts, epoch, created_at)
    SELECT encode(substr(:job_ids::bytea, (job.number - 1)::integer * 16 + 1, 16),
                  'hex')::uuid,
           new.scope, how.value ->> 0, how.value ->> 1, new.id, 'ready', new.now, 0, 0, 0,
           (how.value ->> 2)::integer, 0, new.now
      FROM json_array_elements(:jobs::json) WITH ORDINALITY AS job (value, number)
      JOIN new ON new.place = (job.value ->> 0)::integer
      JOIN json_array_elements(:handlers::json) WITH ORDINALITY AS how (value, number)
        ON how.number = (job.value ->> 1)::integer + 1
)
SELECT claimed.digest, (SELECT pg_notify('{prefix}jobs', '')::text FROM {workers} WHERE idle LIMIT 1) AS woken
  FROM (SELECT 1 / CASE WHEN count(*) = 0 THEN 1 ELSE 0 END AS whole
          FROM guarded
          JOIN wanted ON wanted.replay = guarded.digest
          LEFT JOIN claimed ON claimed.digest = wanted.digest
         WHERE claimed.digest IS NULL) AS guards
  LEFT JOIN claimed ON guards.whole = 1
