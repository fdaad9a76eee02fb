-- The inbox: what arrived, the jobs that it made, and what is counted about it.

-- One row for each event that was remembered. The claim with the same scope and digest is the
-- referee; this index is for looking up. The body goes after its time and leaves the row behind:
-- due_at is when the next of the two must go.
CREATE TABLE {events} (
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
    body        bytea,
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    body_until  timestamptz,
    expires_at  timestamptz,
    due_at      timestamptz
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);

-- Finding an event by its name.
CREATE INDEX {prefix}events_digest ON {events} (scope, digest);

-- The same by the second name that guards a body, where the id is not signed.
CREATE INDEX {prefix}events_replay ON {events} (scope, replay) WHERE replay IS NOT NULL;

-- For removing the body, and later the row, when their time is over.
CREATE INDEX {prefix}events_due_at ON {events} (due_at) WHERE due_at IS NOT NULL;

-- One narrow row for each delivery of an event, a bounded number for each event.
CREATE TABLE {deliveries} (
    event   uuid NOT NULL,
    at      timestamptz NOT NULL,
    outcome text NOT NULL,
    secret  text,
    remote  text
);

-- The deliveries of an event.
CREATE INDEX {prefix}deliveries_event ON {deliveries} (event);

-- Work to be done. Rows leave when they are done, so the table stays small.
CREATE TABLE {jobs} (
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
    last_error   bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- What workers search: only rows that can be taken.
CREATE INDEX {prefix}jobs_ready ON {jobs} (queue, priority, run_at, id) WHERE state = 'ready';

-- The jobs of an event.
CREATE INDEX {prefix}jobs_event ON {jobs} (event) WHERE event IS NOT NULL;

-- One heartbeat row for each process that works. The time is in no index: it changes all the time.
CREATE TABLE {workers} (
    id      uuid NOT NULL PRIMARY KEY,
    host    text NOT NULL,
    pid     integer NOT NULL,
    seen_at timestamptz NOT NULL,
    queues  text NOT NULL,
    idle    boolean NOT NULL
) WITH (fillfactor = 50);

-- What is counted, by the minute: shown without counting rows.
CREATE TABLE {counters} (
    scope  text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    bucket timestamptz NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (scope, name, bucket)
) WITH (fillfactor = 85);
