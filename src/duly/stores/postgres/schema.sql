-- What the migrations make on PostgreSQL, all together, with the names they have unless told
-- otherwise. For reading: `duly migrate` applies the migrations, and a test compares the two.

-- The ledger: one row for each thing that happens once. The caller that inserts the row is first.
CREATE TABLE duly_claims (
    scope       text COLLATE "C" NOT NULL,  -- the namespace of the key
    digest      bytea NOT NULL CHECK (octet_length(digest) = 32),  -- SHA-256 of scope and key
    key_text    text NOT NULL,              -- the key, shortened, for people
    fingerprint bytea CHECK (octet_length(fingerprint) = 32),  -- SHA-256 of the body, if given
    first_seen  timestamptz NOT NULL,
    expires_at  timestamptz,                -- null: never
    state       text NOT NULL CHECK (state IN ('held', 'done')),
    token       bytea,                      -- who claimed it; null: given back
    epoch       bigint NOT NULL CHECK (epoch > 0),  -- grows with every takeover
    lease_until timestamptz CHECK ((state = 'held') = (lease_until IS NOT NULL)),
    result      bytea,                      -- JSON, for duplicates to read
    PRIMARY KEY (scope, digest)
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1
);

-- Pruning finds its rows here.
CREATE INDEX duly_claims_expires_at ON duly_claims (expires_at) WHERE expires_at IS NOT NULL;

-- The order guard: the latest version applied to each resource.
CREATE TABLE duly_versions (
    scope   text COLLATE "C" NOT NULL,
    digest  bytea NOT NULL CHECK (octet_length(digest) = 32),  -- SHA-256 of scope and resource
    kind    text NOT NULL CHECK (kind IN ('number', 'time', 'text')),
    version bytea NOT NULL,                 -- its bytewise order is the order of the versions
    token   bytea,                          -- random; names the call that applied it
    PRIMARY KEY (scope, digest)
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02
);

-- What duly knows about itself: schema_version (the oldest code that may run here), migrated_to
-- (the last migration) and installation_id.
CREATE TABLE duly_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- One row for each event that was remembered. The claim with the same scope and digest is the
-- referee; this index is for looking up. The body goes after its time and leaves the row behind:
-- due_at is when the next of the two must go.
-- outcome, secret and remote are about its first delivery.
CREATE TABLE duly_events (
    id          uuid NOT NULL PRIMARY KEY,
    scope       text COLLATE "C" NOT NULL,
    digest      bytea NOT NULL CHECK (octet_length(digest) = 32),
    replay      bytea CHECK (octet_length(replay) = 32),
    source      text COLLATE "C" NOT NULL,
    event_id    text NOT NULL,
    type        text,
    flags       text NOT NULL,
    received_at timestamptz NOT NULL,
    event_time  timestamptz,
    headers     bytea NOT NULL,
    body        bytea,  -- compressed by lz4, if the server has it
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    body_until  timestamptz,
    expires_at  timestamptz,
    due_at      timestamptz,
    outcome     text,   -- null: the first delivery has a row in duly_deliveries
    secret      text,
    remote      text
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);

-- Finding an event by its name.
CREATE INDEX duly_events_digest ON duly_events (scope, digest);

-- The same by the second name that guards a body, where the id is not signed.
CREATE INDEX duly_events_replay ON duly_events (scope, replay) WHERE replay IS NOT NULL;

-- For removing the body, and later the row, when their time is over.
CREATE INDEX duly_events_due_at ON duly_events (due_at) WHERE due_at IS NOT NULL;

-- One narrow row for each delivery of a known event, a bounded number for each event.
CREATE TABLE duly_deliveries (
    event   uuid NOT NULL,
    at      timestamptz NOT NULL,
    outcome text NOT NULL,
    secret  text,
    remote  text
);

-- The further deliveries of an event.
CREATE INDEX duly_deliveries_event ON duly_deliveries (event);

-- Work to be done. Rows leave when they are done, so the table stays small.
CREATE TABLE duly_jobs (
    id           uuid NOT NULL PRIMARY KEY,
    scope        text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    event        uuid,
    payload      bytea,
    state        text NOT NULL CHECK (state IN ('ready', 'leased', 'dead')),
    run_at       timestamptz NOT NULL,
    priority     smallint NOT NULL,
    attempts     integer NOT NULL CHECK (attempts >= 0),
    rescues      integer NOT NULL CHECK (rescues >= 0),
    max_attempts integer NOT NULL CHECK (max_attempts > 0),
    token        bytea,
    epoch        bigint NOT NULL CHECK (epoch >= 0),
    worker       uuid,
    deadline     timestamptz,
    last_error   bytea,         -- JSON: type, message, traceback, attempt
    waiting      boolean NOT NULL DEFAULT false,  -- its time has not come
    parked       boolean NOT NULL DEFAULT false,  -- no worker that saw it knows its handler
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    dead_at      timestamptz,
    due_at       timestamptz    -- when it was first due, noted by its first lease
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- What workers search: rows that can be taken now, and nothing else.
CREATE INDEX duly_jobs_due ON duly_jobs (queue, priority, run_at, id)
 WHERE state = 'ready' AND NOT waiting AND rescues = 0;

-- Those whose time will come; a worker moves them over when it has.
CREATE INDEX duly_jobs_waiting ON duly_jobs (run_at) WHERE state = 'ready' AND waiting;

-- Those whose worker was lost: few, and each may be what killed it.
CREATE INDEX duly_jobs_rescued ON duly_jobs (queue, run_at) WHERE state = 'ready' AND rescues > 0;

-- Who works on what. The heartbeat is a row of the worker's, so this changes with the lease only.
CREATE INDEX duly_jobs_leased ON duly_jobs (worker) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX duly_jobs_dead ON duly_jobs (dead_at) WHERE state = 'dead';

-- The jobs of an event.
CREATE INDEX duly_jobs_event ON duly_jobs (event) WHERE event IS NOT NULL;

-- One heartbeat row for each process that works. The time is in no index: it changes all the time.
CREATE TABLE duly_workers (
    id      uuid NOT NULL PRIMARY KEY,
    host    text NOT NULL,
    pid     integer NOT NULL,
    seen_at timestamptz NOT NULL,
    queues  text NOT NULL,
    idle    boolean NOT NULL,
    lease   bigint NOT NULL DEFAULT 60000000  -- microseconds without a sign of life
) WITH (fillfactor = 50);

-- What is counted, by the minute: shown without counting rows.
CREATE TABLE duly_counters (
    scope  text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    bucket timestamptz NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (scope, name, bucket)
) WITH (fillfactor = 85);

-- A small row for each job that has left the table of jobs. It may be dropped at any time.
CREATE TABLE duly_history (
    job      uuid NOT NULL,
    scope    text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    event    uuid,
    outcome  text NOT NULL,
    started  timestamptz,
    ended    timestamptz NOT NULL,
    attempts integer NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);

-- What became of a job.
CREATE INDEX duly_history_job ON duly_history (job);

-- For removing what is old.
CREATE INDEX duly_history_ended ON duly_history (ended);

-- External steps of jobs: the intent is written before, the outcome after. An intent that stays is
-- an unknown outcome.
CREATE TABLE duly_effects (
    scope  text COLLATE "C" NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    name   text COLLATE "C" NOT NULL,
    state  text NOT NULL CHECK (state IN ('intended', 'done', 'unknown')),
    key    text NOT NULL,
    result bytea,
    job    uuid NOT NULL,
    epoch  bigint NOT NULL,
    at     timestamptz NOT NULL,
    event_digest bytea,                     -- the event's, also when it is received again
    PRIMARY KEY (scope, digest, name)
) WITH (fillfactor = 85);

-- For removing what is old.
CREATE INDEX duly_effects_at ON duly_effects (at);

-- The effects of a job.
CREATE INDEX duly_effects_job ON duly_effects (job);

-- The last slot of each schedule that was enqueued.
CREATE TABLE duly_schedules (
    scope text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    slot  timestamptz NOT NULL,
    PRIMARY KEY (scope, name)
) WITH (fillfactor = 50);

-- Every attempt carries the id, for the other side to know it by. request: JSON with the method, the
-- address and the headers. A message names its signer, it never holds a secret.
-- waiting: its time has not come, and it is kept out of the index that relays look through.
-- What was sent has left the table, and is a row of the history.
CREATE TABLE duly_outbox (
    id           uuid PRIMARY KEY,
    scope        text COLLATE "C" NOT NULL,
    destination  text COLLATE "C" NOT NULL,
    request      bytea NOT NULL,
    body         bytea,
    signer       text COLLATE "C",
    state        text NOT NULL CHECK (state IN ('ready', 'leased', 'dead')),
    run_at       timestamptz NOT NULL,
    waiting      boolean NOT NULL DEFAULT false,
    attempts     integer NOT NULL DEFAULT 0,
    rescues      integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL,
    token        bytea,
    epoch        bigint NOT NULL DEFAULT 0,
    lease_until  timestamptz,
    created_at   timestamptz NOT NULL,
    dead_at      timestamptz,
    last_error   bytea,
    due_at       timestamptz  -- when it was first due, noted by its first lease
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_insert_scale_factor = 0.1);

-- What relays search: messages that can be sent now, each destination apart.
CREATE INDEX duly_outbox_due ON duly_outbox (destination, run_at, id)
 WHERE state = 'ready' AND NOT waiting;

-- Those whose time will come; a relay moves them over when it has.
CREATE INDEX duly_outbox_waiting ON duly_outbox (run_at) WHERE state = 'ready' AND waiting;

-- Leases, the first to end first.
CREATE INDEX duly_outbox_leased ON duly_outbox (lease_until) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX duly_outbox_dead ON duly_outbox (dead_at) WHERE state = 'dead';

-- Fails the statement that calls it, with an SQLSTATE of its own.
CREATE FUNCTION duly_fail(state text, reason text) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = reason;
END
$$;
