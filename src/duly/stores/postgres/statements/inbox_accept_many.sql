-- Receive many distinct events at once: claim each, and write its event, its arrival and its jobs
-- where nobody had claimed it. One statement is one transaction, in one round trip. Where the id
-- is not signed, a second claim guards the body: it is made first, all of these before any other,
-- and the event counts only if both were free. An event without a row in the answer was known, or
-- is being received elsewhere; the caller looks closer in its next statement.
-- params: scope[], digest[], key_text[], fingerprint[], replay[] (empty for none), ttl[]
--         (microseconds, -1 for ever), id[], source[], event_id[], type[] (empty for none), flags[],
--         event_time[] (microseconds, the least number for none), headers[], body[], body_ttl[]
--         (as ttl), outcome[], secret[], remote[] (both empty for none), job_digest[], job_id[],
--         job_name[], job_queue[], job_attempts[], now, wait
-- columns: digest
WITH {moment},
wanted AS MATERIALIZED (
    SELECT wanted.*,
           decode(replace(wanted.id, '-', ''), 'hex') AS token,
           moment.now,
           moment.now + nullif(wanted.ttl, -1) * interval '1 microsecond' AS expires_at
      FROM moment,
           unnest(:scope::text[], :digest::bytea[], :key_text::text[], :fingerprint::bytea[],
                  :replay::bytea[], :ttl::bigint[], :id::text[], :source::text[],
                  :event_id::text[], :type::text[], :flags::text[], :event_time::bigint[],
                  :headers::bytea[], :body::bytea[], :body_ttl::bigint[], :outcome::text[],
                  :secret::text[], :remote::text[])
               AS wanted (scope, digest, key_text, fingerprint, replay, ttl, id, source, event_id,
                          type, flags, event_time, headers, body, body_ttl, outcome, secret, remote)
),
guarded AS (
    INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                          state, token, epoch)
    SELECT scope, replay, key_text, fingerprint, now, expires_at, 'done', token, 1
      FROM wanted
     WHERE replay <> ''::bytea
       AND NOT EXISTS (SELECT
                         FROM {claims} AS known
                        WHERE known.scope = wanted.scope AND known.digest = wanted.digest)
     ORDER BY replay
        ON CONFLICT (scope, digest) DO NOTHING
    RETURNING scope, digest
),
claimed AS (
    INSERT INTO {claims} (scope, digest, key_text, fingerprint, first_seen, expires_at,
                          state, token, epoch)
    SELECT wanted.scope, wanted.digest, key_text, fingerprint, now, expires_at,
           'done', token, 1
      FROM wanted
      LEFT JOIN guarded ON guarded.scope = wanted.scope AND guarded.digest = wanted.replay
     WHERE wanted.replay = ''::bytea OR guarded.digest IS NOT NULL
     ORDER BY wanted.digest
        ON CONFLICT (scope, digest) DO NOTHING
    RETURNING scope, digest
),
remembered AS (
    INSERT INTO {events} (id, scope, digest, replay, source, event_id, type, flags, received_at,
                          event_time, headers, body, fingerprint, body_until, expires_at)
    SELECT id::uuid, scope, digest, nullif(replay, ''::bytea), source, event_id, nullif(type, ''),
           flags, now,
           timestamptz 'epoch' + nullif(event_time, -9223372036854775808) * interval '1 microsecond',
           headers, body, fingerprint,
           now + nullif(body_ttl, -1) * interval '1 microsecond', expires_at
      FROM wanted JOIN claimed USING (scope, digest)
),
noted AS (
    INSERT INTO {deliveries} (event, at, outcome, secret, remote)
    SELECT id::uuid, now, outcome, nullif(secret, ''), nullif(remote, '')
      FROM wanted JOIN claimed USING (scope, digest)
),
enqueued AS (
    INSERT INTO {jobs} (id, scope, name, queue, event, state, run_at, priority, attempts, rescues,
                        max_attempts, epoch)
    SELECT job.id::uuid, wanted.scope, job.name, job.queue, wanted.id::uuid, 'ready', wanted.now,
           0, 0, 0, job.attempts, 0
      FROM unnest(:job_digest::bytea[], :job_id::text[], :job_name::text[], :job_queue::text[],
                  :job_attempts::integer[]) AS job (digest, id, name, queue, attempts)
      JOIN wanted USING (digest)
      JOIN claimed ON claimed.scope = wanted.scope AND claimed.digest = wanted.digest
)
SELECT digest FROM claimed
