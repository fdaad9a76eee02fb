-- What the migrations make on SQLite, all together, with the names they have unless told otherwise.
-- For reading: duly applies the migrations when it opens a file, and a test compares the two.

-- The ledger: one row for each thing that happens once. The caller that inserts the row is first.
CREATE TABLE duly_claims (
    scope       TEXT NOT NULL,  -- the namespace of the key
    digest      BLOB NOT NULL CHECK (length(digest) = 32),  -- SHA-256 of scope and key
    key_text    TEXT NOT NULL,  -- the key, shortened, for people
    fingerprint BLOB CHECK (length(fingerprint) = 32),  -- SHA-256 of the body, if given
    first_seen  INTEGER NOT NULL,  -- times are microseconds since 1970, UTC
    expires_at  INTEGER,        -- null: never
    state       TEXT NOT NULL CHECK (state IN ('held', 'done')),
    token       BLOB,           -- who claimed it; null: given back
    epoch       INTEGER NOT NULL CHECK (epoch > 0),  -- grows with every takeover
    lease_until INTEGER CHECK ((state = 'held') = (lease_until IS NOT NULL)),
    result      BLOB,           -- JSON, for duplicates to read
    PRIMARY KEY (scope, digest)
) STRICT, WITHOUT ROWID;

-- Pruning finds its rows here.
CREATE INDEX duly_claims_expires_at ON duly_claims (expires_at) WHERE expires_at IS NOT NULL;

-- The order guard: the latest version applied to each resource.
CREATE TABLE duly_versions (
    scope   TEXT NOT NULL,
    digest  BLOB NOT NULL CHECK (length(digest) = 32),  -- SHA-256 of scope and resource
    kind    TEXT NOT NULL CHECK (kind IN ('number', 'time', 'text')),
    version BLOB NOT NULL,      -- its bytewise order is the order of the versions
    token   BLOB,               -- random; names the call that applied it
    PRIMARY KEY (scope, digest)
) STRICT, WITHOUT ROWID;

-- What duly knows about itself: schema_version (the oldest code that may run here), migrated_to
-- (the last migration) and installation_id.
CREATE TABLE duly_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each event that was remembered. The claim with the same scope and digest is the
-- referee; this index is for looking up. The body goes after its time and leaves the row behind:
-- due_at is when the next of the two must go.
-- outcome, secret and remote are about its first delivery.
CREATE TABLE duly_events (
    id          TEXT NOT NULL PRIMARY KEY,
    scope       TEXT NOT NULL,
    digest      BLOB NOT NULL CHECK (length(digest) = 32),
    replay      BLOB CHECK (length(replay) = 32),
    source      TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    type        TEXT,
    flags       TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    event_time  INTEGER,
    headers     BLOB NOT NULL,
    body        BLOB,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
    body_until  INTEGER,
    expires_at  INTEGER,
    due_at      INTEGER,
    outcome     TEXT,  -- null: the first delivery has a row in duly_deliveries
    secret      TEXT,
    remote      TEXT
) STRICT;

-- Finding an event by its name.
CREATE INDEX duly_events_digest ON duly_events (scope, digest);

-- The same by the second name that guards a body, where the id is not signed.
CREATE INDEX duly_events_replay ON duly_events (scope, replay) WHERE replay IS NOT NULL;

-- For removing the body, and later the row, when their time is over.
CREATE INDEX duly_events_due_at ON duly_events (due_at) WHERE due_at IS NOT NULL;

-- One narrow row for each delivery of a known event, a bounded number for each event.
CREATE TABLE duly_deliveries (
    event   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    secret  TEXT,
    remote  TEXT
) STRICT;

-- The further deliveries of an event.
CREATE INDEX duly_deliveries_event ON duly_deliveries (event);

-- Work to be done. Rows leave when they are done, so the table stays small.
CREATE TABLE duly_jobs (
    id           TEXT NOT NULL PRIMARY KEY,
    scope        TEXT NOT NULL,
    name         TEXT NOT NULL,
    queue        TEXT NOT NULL,
    event        TEXT,
    payload      BLOB,
    state        TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'dead')),
    run_at       INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL CHECK (attempts >= 0),
    rescues      INTEGER NOT NULL CHECK (rescues >= 0),
    max_attempts INTEGER NOT NULL CHECK (max_attempts > 0),
    token        BLOB,
    epoch        INTEGER NOT NULL CHECK (epoch >= 0),
    worker       TEXT,
    deadline     INTEGER,
    last_error   BLOB,          -- JSON: type, message, traceback, attempt
    waiting INTEGER NOT NULL DEFAULT 0,  -- its time has not come
    parked INTEGER NOT NULL DEFAULT 0,   -- no worker that saw it knows its handler
    created_at INTEGER NOT NULL DEFAULT 0,
    dead_at INTEGER,
    due_at INTEGER  -- when it was first due, noted by its first lease
) STRICT, WITHOUT ROWID;

-- What workers search: rows that can be taken now, and nothing else.
CREATE INDEX duly_jobs_due ON duly_jobs (queue, priority, run_at, id)
 WHERE state = 'ready' AND waiting = 0 AND rescues = 0;

-- Those whose time will come; a worker moves them over when it has.
CREATE INDEX duly_jobs_waiting ON duly_jobs (run_at) WHERE state = 'ready' AND waiting = 1;

-- Those whose worker was lost: few, and each may be what killed it.
CREATE INDEX duly_jobs_rescued ON duly_jobs (queue, run_at) WHERE state = 'ready' AND rescues > 0;

-- Who works on what.
CREATE INDEX duly_jobs_leased ON duly_jobs (worker) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX duly_jobs_dead ON duly_jobs (dead_at) WHERE state = 'dead';

-- The jobs of an event.
CREATE INDEX duly_jobs_event ON duly_jobs (event) WHERE event IS NOT NULL;

-- One heartbeat row for each process that works.
CREATE TABLE duly_workers (
    id      TEXT NOT NULL PRIMARY KEY,
    host    TEXT NOT NULL,
    pid     INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    queues  TEXT NOT NULL,
    idle    INTEGER NOT NULL,
    lease INTEGER NOT NULL DEFAULT 60000000  -- microseconds without a sign of life
) STRICT, WITHOUT ROWID;

-- What is counted, by the minute: shown without counting rows.
CREATE TABLE duly_counters (
    scope  TEXT NOT NULL,
    name   TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (scope, name, bucket)
) STRICT, WITHOUT ROWID;

-- A small row for each job that has left the table of jobs. It may be dropped at any time.
CREATE TABLE duly_history (
    job      TEXT NOT NULL,
    scope    TEXT NOT NULL,
    name     TEXT NOT NULL,
    event    TEXT,
    outcome  TEXT NOT NULL,
    started  INTEGER,
    ended    INTEGER NOT NULL,
    attempts INTEGER NOT NULL
) STRICT;

-- What became of a job.
CREATE INDEX duly_history_job ON duly_history (job);

-- For removing what is old.
CREATE INDEX duly_history_ended ON duly_history (ended);

-- External steps of jobs: the intent is written before, the outcome after. An intent that stays is
-- an unknown outcome.
CREATE TABLE duly_effects (
    scope  TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    name   TEXT NOT NULL,
    state  TEXT NOT NULL CHECK (state IN ('intended', 'done', 'unknown')),
    key    TEXT NOT NULL,
    result BLOB,
    job    TEXT NOT NULL,
    epoch  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    event_digest BLOB,  -- the event's, also when it is received again
    PRIMARY KEY (scope, digest, name)
) STRICT, WITHOUT ROWID;

-- For removing what is old.
CREATE INDEX duly_effects_at ON duly_effects (at);

-- The effects of a job.
CREATE INDEX duly_effects_job ON duly_effects (job);

-- The last slot of each schedule that was enqueued.
CREATE TABLE duly_schedules (
    scope TEXT NOT NULL,
    name  TEXT NOT NULL,
    slot  INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- Every attempt carries the id, for the other side to know it by. request: JSON with the method, the
-- address and the headers. A message names its signer, it never holds a secret.
-- waiting: its time has not come, and it is kept out of the index that relays look through.
-- What was sent has left the table, and is a row of the history.
CREATE TABLE duly_outbox (
    id           TEXT PRIMARY KEY NOT NULL,
    scope        TEXT NOT NULL,
    destination  TEXT NOT NULL,
    request      BLOB NOT NULL,
    body         BLOB,
    signer       TEXT,
    state        TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'dead')),
    run_at       INTEGER NOT NULL,
    waiting      INTEGER NOT NULL DEFAULT 0,
    attempts     INTEGER NOT NULL DEFAULT 0,
    rescues      INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    token        BLOB,
    epoch        INTEGER NOT NULL DEFAULT 0,
    lease_until  INTEGER,
    created_at   INTEGER NOT NULL,
    dead_at      INTEGER,
    last_error   BLOB,
    due_at       INTEGER  -- when it was first due, noted by its first lease
) STRICT;

-- What relays search: messages that can be sent now, each destination apart.
CREATE INDEX duly_outbox_due ON duly_outbox (destination, run_at, id)
 WHERE state = 'ready' AND waiting = 0;

-- Those whose time will come; a relay moves them over when it has.
CREATE INDEX duly_outbox_waiting ON duly_outbox (run_at) WHERE state = 'ready' AND waiting = 1;

-- Leases, the first to end first.
CREATE INDEX duly_outbox_leased ON duly_outbox (lease_until) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX duly_outbox_dead ON duly_outbox (dead_at) WHERE state = 'dead';
