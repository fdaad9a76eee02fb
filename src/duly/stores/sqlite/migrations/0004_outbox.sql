-- Calls to the outside world, staged in the transaction that wants them made.

-- Every attempt carries the id, for the other side to know it by. request: JSON with the method, the
-- address and the headers. A message names its signer, it never holds a secret.
-- waiting: its time has not come, and it is kept out of the index that relays look through.
-- What was sent has left the table, and is a row of the history.
CREATE TABLE {outbox} (
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
    last_error   BLOB
) STRICT;

-- What relays search: messages that can be sent now, each destination apart.
CREATE INDEX {prefix}outbox_due ON {outbox} (destination, run_at, id)
 WHERE state = 'ready' AND waiting = 0;

-- Those whose time will come; a relay moves them over when it has.
CREATE INDEX {prefix}outbox_waiting ON {outbox} (run_at) WHERE state = 'ready' AND waiting = 1;

-- Leases, the first to end first.
CREATE INDEX {prefix}outbox_leased ON {outbox} (lease_until) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX {prefix}outbox_dead ON {outbox} (dead_at) WHERE state = 'dead';
