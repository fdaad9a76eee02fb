-- The ledger: claims, the order guard, and what duly knows about itself.

-- One row for each thing that happens once. The primary key is the only referee between
-- concurrent callers. STRICT and BLOB, so that the key "1" is never the number 1.
CREATE TABLE {claims} (
    scope       TEXT NOT NULL,
    digest      BLOB NOT NULL CHECK (length(digest) = 32),
    key_text    TEXT NOT NULL,
    fingerprint BLOB CHECK (length(fingerprint) = 32),
    first_seen  INTEGER NOT NULL,
    expires_at  INTEGER,
    state       TEXT NOT NULL CHECK (state IN ('held', 'done')),
    token       BLOB,
    epoch       INTEGER NOT NULL CHECK (epoch > 0),
    lease_until INTEGER CHECK ((state = 'held') = (lease_until IS NOT NULL)),
    result      BLOB,
    PRIMARY KEY (scope, digest)
) STRICT, WITHOUT ROWID;

-- For pruning.
CREATE INDEX {prefix}claims_expires_at ON {claims} (expires_at) WHERE expires_at IS NOT NULL;

-- The latest version applied to each resource.
CREATE TABLE {versions} (
    scope   TEXT NOT NULL,
    digest  BLOB NOT NULL CHECK (length(digest) = 32),
    kind    TEXT NOT NULL CHECK (kind IN ('number', 'time', 'text')),
    version BLOB NOT NULL,
    token   BLOB,
    PRIMARY KEY (scope, digest)
) STRICT, WITHOUT ROWID;

-- What duly knows about itself: schema_version, installation_id.
CREATE TABLE {meta} (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
