-- What the migrations make on SQLite, all together, with the names they have unless told otherwise.
-- For reading: duly applies the migrations when it opens a file, and a test compares the two.

-- The ledger: one row for each thing that happens once. Whoever inserts the row is first.
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

-- What duly knows about itself: schema_version and installation_id.
CREATE TABLE duly_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
