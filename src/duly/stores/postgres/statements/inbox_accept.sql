-- Receive many distinct events at once: claim each, and where its key was free write its event,
-- with its first delivery, and its jobs. One statement is one transaction, in one round trip. Where
-- the id is not signed, a second claim guards the body: it is made first, all of these before any
-- other, and the event counts only if both were free; a guard without its event fails the whole
-- with UD001, so that none is left behind. An event that is not in the answer was known, or is
-- being received elsewhere; the caller reads it in its next statement. What many events have in
-- common is sent once. Bytes go end to end; headers and bodies are cut out only where they are
-- written, because sorts and joins would copy them. A digest covers its scope, so that it alone
-- joins the parts. Places and starts count from 1.
-- params: kinds (JSON: scope, source, type, flags, outcome, secret, remote, ttl, body_ttl),
--         event_id[], event_time[] (microseconds), replay[] (the digest of the body's claim or
--         null; empty if none has one), numbers[] (four for each event: the place of its kind, where
--         its headers begin in blobs, their length, the length of the body behind them), fixed (80
--         bytes each: digest, fingerprint, id), blobs, handlers (JSON: name, queue, attempts),
--         jobs[] (two for each job: the places of its event and of its handler), job_ids (16 bytes
--         each), now, wait
-- columns: digests (of the events that were written, end to end; null where there are none)
WITH {moment},
shared AS MATERIALIZED (
    SELECT place AS kind, value ->> 0 AS scope, value ->> 1 AS source, value ->> 2 AS type,
           value ->> 3 AS flags, value ->> 4 AS outcome, value ->> 5 AS secret,
           value ->> 6 AS remote,
           moment.now,
           moment.now + (value ->> 7)::bigint * interval '1 microsecond' AS expires_at,
           moment.now + (value ->> 8)::bigint * interval '1 microsecond' AS body_until
      FROM moment, json_array_elements(:kinds::json) WITH ORDINALITY AS each (value, place)
),
wanted AS MATERIALIZED (
    SELECT shared.*, place, event_id, replay,
           timestamptz 'epoch' + time * interval '1 microsecond' AS event_time,
           substr(:fixed::bytea, place * 80 - 79, 32) AS digest,
           substr(:fixed::bytea, place * 80 - 47, 32) AS fingerprint,
           substr(:fixed::bytea, place * 80 - 15, 16) AS token
      FROM (SELECT number::integer AS place, event_id, time, replay
              FROM unnest(:event_id::text[], :event_time::bigint[], :replay::bytea[])
                   WITH ORDINALITY AS each (event_id, time, replay, number)) AS each
      JOIN shared ON kind = (:numbers::integer[])[place * 4 - 3]
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
    SELECT wanted.*, encode(token, 'hex')::uuid AS id
      FROM wanted JOIN claimed USING (scope, digest)
),
kept AS (
    INSERT INTO {events} (id, scope, digest, replay, source, event_id, type, flags, received_at,
                          event_time, headers, body, fingerprint, body_until, expires_at, due_at,
                          outcome, secret, remote)
    SELECT id, scope, digest, replay, source, event_id, type, flags, now, event_time,
           substr(:blobs::bytea, (:numbers::integer[])[place * 4 - 2],
                  (:numbers::integer[])[place * 4 - 1]),
           substr(:blobs::bytea,
                  (:numbers::integer[])[place * 4 - 2] + (:numbers::integer[])[place * 4 - 1],
                  (:numbers::integer[])[place * 4]),
           fingerprint, body_until, expires_at, least(body_until, expires_at),
           outcome, secret, remote
      FROM new
),
made AS (
    INSERT INTO {jobs} (id, scope, name, queue, event, state, run_at, priority, attempts, rescues,
                        max_attempts, epoch, created_at)
    SELECT encode(substr(:job_ids::bytea, job * 16 - 15, 16), 'hex')::uuid,
           new.scope, how.value ->> 0, how.value ->> 1, new.id, 'ready', new.now, 0, 0, 0,
           (how.value ->> 2)::integer, 0, new.now
      FROM generate_series(1, cardinality(:jobs::integer[]) / 2) AS job
      JOIN new ON new.place = (:jobs::integer[])[job * 2 - 1]
      JOIN json_array_elements(:handlers::json) WITH ORDINALITY AS how (value, number)
        ON how.number = (:jobs::integer[])[job * 2]
)
SELECT string_agg(claimed.digest, ''::bytea) AS digests, {woken}
  FROM (SELECT CASE WHEN count(*) = 0 THEN true
                    ELSE {schema}{prefix}fail('UD001', 'a body was claimed without its event')
                     END AS whole
          FROM guarded
          JOIN wanted ON wanted.replay = guarded.digest
          LEFT JOIN claimed ON claimed.digest = wanted.digest
         WHERE claimed.digest IS NULL) AS guards
  LEFT JOIN claimed ON guards.whole
