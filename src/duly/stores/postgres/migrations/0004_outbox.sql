-- Calls to the outside world, staged in the transaction that wants them made.

-- Every attempt carries the id, for the other side to know it by. request: JSON with the method, the
-- address and the headers. A message names its signer, it never holds a secret.
-- waiting: its time has not come, and it is kept out of the index that relays look through.
-- What was sent has left the table, and is a row of the history.
CREATE TABLE {outbox} (
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
    last_error   bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 500, autovacuum_vacuum_insert_scale_factor = 0.1);

-- What relays search: messages that can be sent now, each destination apart.
CREATE INDEX {prefix}outbox_due ON {outbox} (destination, run_at, id)
 WHERE state = 'ready' AND NOT waiting;

-- Those whose time will come; a relay moves them over when it has.
CREATE INDEX {prefix}outbox_waiting ON {outbox} (run_at) WHERE state = 'ready' AND waiting;

-- Leases, the first to end first.
CREATE INDEX {prefix}outbox_leased ON {outbox} (lease_until) WHERE state = 'leased';

-- Dead rows, the latest last.
CREATE INDEX {prefix}outbox_dead ON {outbox} (dead_at) WHERE state = 'dead';
