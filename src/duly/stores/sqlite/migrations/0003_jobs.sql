-- Jobs at work: what a worker takes, what it leaves behind, and what it knows of itself.

-- Its time has not come, and it is kept out of the index that workers look through.
ALTER TABLE {jobs} ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;

-- No worker that saw it knows its handler.
ALTER TABLE {jobs} ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;

ALTER TABLE {jobs} ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;

ALTER TABLE {jobs} ADD COLUMN dead_at INTEGER;

UPDATE {jobs} SET created_at = run_at;

DROP INDEX {prefix}jobs_ready;

-- What workers search: rows that can be taken now, and nothing else.
CREATE INDEX {prefix}jobs_due ON {jobs} (queue, priority, run_at, id)
 WHERE state = 'ready' AND waiting = 0 AND rescues = 0;

-- Those whose time will come; a worker moves them over when it has.
CREATE INDEX {prefix}jobs_waiting ON {jobs} (run_at) WHERE state = 'ready' AND waiting = 1;

-- Those whose worker was lost: few, and each may be what killed it.
CREATE INDEX {prefix}jobs_rescued ON {jobs} (queue, run_at) WHERE state = 'ready' AND rescues > 0;

-- Who works on what.
CREATE INDEX {prefix}jobs_leased ON {jobs} (worker) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX {prefix}jobs_dead ON {jobs} (dead_at) WHERE state = 'dead';

-- After how long without a sign of life (in microseconds) a worker's leases are lost.
ALTER TABLE {workers} ADD COLUMN lease INTEGER NOT NULL DEFAULT 60000000;

-- A small row for each job that has left the table of jobs. It may be dropped at any time.
CREATE TABLE {history} (
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
CREATE INDEX {prefix}history_job ON {history} (job);

-- For removing what is old.
CREATE INDEX {prefix}history_ended ON {history} (ended);

-- External steps of jobs: the intent is written before, the outcome after. An intent that stays is
-- an unknown outcome.
CREATE TABLE {effects} (
    scope  TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    name   TEXT NOT NULL,
    state  TEXT NOT NULL CHECK (state IN ('intended', 'done', 'unknown')),
    key    TEXT NOT NULL,
    result BLOB,
    job    TEXT NOT NULL,
    epoch  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (scope, digest, name)
) STRICT, WITHOUT ROWID;

-- For removing what is old.
CREATE INDEX {prefix}effects_at ON {effects} (at);

-- The effects of a job.
CREATE INDEX {prefix}effects_job ON {effects} (job);

-- The last slot of each schedule that was enqueued.
CREATE TABLE {schedules} (
    scope TEXT NOT NULL,
    name  TEXT NOT NULL,
    slot  INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
