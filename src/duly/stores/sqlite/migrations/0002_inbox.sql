-- The inbox: what arrived, the jobs that it made, and what is counted about it.

-- One row for each event that was remembered. The claim with the same scope and digest is the
-- referee; this index is for looking up. The body goes after its time and leaves the row behind:
-- due_at is when the next of the two must go.
CREATE TABLE {events} (
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
    due_at      INTEGER
) STRICT;

-- Finding an event by its name.
CREATE INDEX {prefix}events_digest ON {events} (scope, digest);

-- The same by the second name that guards a body, where the id is not signed.
CREATE INDEX {prefix}events_replay ON {events} (scope, replay) WHERE replay IS NOT NULL;

-- For removing the body, and later the row, when their time is over.
CREATE INDEX {prefix}events_due_at ON {events} (due_at) WHERE due_at IS NOT NULL;

-- One narrow row for each delivery of an event, a bounded number for each event.
CREATE TABLE {deliveries} (
    event   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    secret  TEXT,
    remote  TEXT
) STRICT;

-- The deliveries of an event.
CREATE INDEX {prefix}deliveries_event ON {deliveries} (event);

-- Work to be done. Rows leave when they are done, so the table stays small.
CREATE TABLE {jobs} (
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
    last_error   BLOB
) STRICT, WITHOUT ROWID;

-- What workers search: only rows that can be taken.
CREATE INDEX {prefix}jobs_ready ON {jobs} (queue, priority, run_at, id) WHERE state = 'ready';

-- The jobs of an event.
CREATE INDEX {prefix}jobs_event ON {jobs} (event) WHERE event IS NOT NULL;

-- One heartbeat row for each process that works.
CREATE TABLE {workers} (
    id      TEXT NOT NULL PRIMARY KEY,
    host    TEXT NOT NULL,
    pid     INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    queues  TEXT NOT NULL,
    idle    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is counted, by the minute: shown without counting rows.
CREATE TABLE {counters} (
    scope  TEXT NOT NULL,
    name   TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (scope, name, bucket)
) STRICT, WITHOUT ROWID;
