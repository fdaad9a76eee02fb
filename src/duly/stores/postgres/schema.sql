-- What the migrations make on PostgreSQL, all together, with the names they have unless told
-- otherwise. For reading: `duly migrate` applies the migrations, and a test compares the two.

-- The ledger: one row for each thing that happens once. Whoever inserts the row is first.
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

-- What duly knows about itself: schema_version and installation_id.
CREATE TABLE duly_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
