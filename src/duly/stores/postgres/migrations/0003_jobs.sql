-- Jobs at work: what a worker takes, what it leaves behind, and what it knows of itself.

-- waiting: its time has not come, and it is kept out of the index that workers look through.
-- parked: no worker that saw it knows its handler.
ALTER TABLE {jobs}
    ADD COLUMN waiting    boolean NOT NULL DEFAULT false,
    ADD COLUMN parked     boolean NOT NULL DEFAULT false,
    ADD COLUMN created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN dead_at    timestamptz;

DROP INDEX {schema}{prefix}jobs_ready;

-- What workers search: rows that can be taken now, and nothing else.
CREATE INDEX {prefix}jobs_due ON {jobs} (queue, priority, run_at, id)
 WHERE state = 'ready' AND NOT waiting AND rescues = 0;

-- Those whose time will come; a worker moves them over when it has.
CREATE INDEX {prefix}jobs_waiting ON {jobs} (run_at) WHERE state = 'ready' AND waiting;

-- Those whose worker was lost: few, and each may be what killed it.
CREATE INDEX {prefix}jobs_rescued ON {jobs} (queue, run_at) WHERE state = 'ready' AND rescues > 0;

-- Who works on what. The heartbeat is a row of the worker's, so this changes with the lease only.
CREATE INDEX {prefix}jobs_leased ON {jobs} (worker) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX {prefix}jobs_dead ON {jobs} (dead_at) WHERE state = 'dead';

-- After how long without a sign of life (in microseconds) a worker's leases are lost.
ALTER TABLE {workers} ADD COLUMN lease bigint NOT NULL DEFAULT 60000000;

-- A small row for each job that has left the table of jobs. It may be dropped at any time.
CREATE TABLE {history} (
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
CREATE INDEX {prefix}history_job ON {history} (job);

-- For removing what is old.
CREATE INDEX {prefix}history_ended ON {history} (ended);

-- External steps of jobs: the intent is written before, the outcome after. An intent that stays is
-- an unknown outcome.
CREATE TABLE {effects} (
    scope  text COLLATE "C" NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    name   text COLLATE "C" NOT NULL,
    state  text NOT NULL CHECK (state IN ('intended', 'done', 'unknown')),
    key    text NOT NULL,
    result bytea,
    job    uuid NOT NULL,
    epoch  bigint NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (scope, digest, name)
) WITH (fillfactor = 85);

-- For removing what is old.
CREATE INDEX {prefix}effects_at ON {effects} (at);

-- The effects of a job.
CREATE INDEX {prefix}effects_job ON {effects} (job);

-- The last slot of each schedule that was enqueued.
CREATE TABLE {schedules} (
    scope text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    slot  timestamptz NOT NULL,
    PRIMARY KEY (scope, name)
) WITH (fillfactor = 50);
