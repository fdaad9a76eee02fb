-- The ledger: claims, the order guard, and what duly knows about itself.

-- One row for each thing that happens once. The primary key is the only referee between
-- concurrent callers. Digests, because a text key may be longer than an index entry and because a
-- change of collation must never corrupt this index.
CREATE TABLE {claims} (
    scope       text COLLATE "C" NOT NULL,
    digest      bytea NOT NULL CHECK (octet_length(digest) = 32),
    key_text    text NOT NULL,
    fingerprint bytea CHECK (octet_length(fingerprint) = 32),
    first_seen  timestamptz NOT NULL,
    expires_at  timestamptz,
    state       text NOT NULL CHECK (state IN ('held', 'done')),
    token       bytea,
    epoch       bigint NOT NULL CHECK (epoch > 0),
    lease_until timestamptz CHECK ((state = 'held') = (lease_until IS NOT NULL)),
    result      bytea,
    PRIMARY KEY (scope, digest)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_insert_scale_factor = 0.1);

-- For pruning. The lease's end is in no index, so that renewing one stays a cheap update in place.
CREATE INDEX {prefix}claims_expires_at ON {claims} (expires_at) WHERE expires_at IS NOT NULL;

-- The latest version applied to each resource.
CREATE TABLE {versions} (
    scope   text COLLATE "C" NOT NULL,
    digest  bytea NOT NULL CHECK (octet_length(digest) = 32),
    kind    text NOT NULL CHECK (kind IN ('number', 'time', 'text')),
    version bytea NOT NULL,
    token   bytea,
    PRIMARY KEY (scope, digest)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);

-- What duly knows about itself: schema_version, installation_id.
CREATE TABLE {meta} (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
