"""What an outbox is where people write one by hand, and what the caller writes beside it."""

from __future__ import annotations

ORDERS = """
CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id integer NOT NULL)
"""
OUTBOX = """
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message uuid NOT NULL,
    url text NOT NULL,
    body bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz
);
CREATE INDEX outbox_unsent ON outbox (id) WHERE sent_at IS NULL;
"""
SQLITE_ORDERS = "CREATE TABLE orders (number INTEGER PRIMARY KEY, id INTEGER NOT NULL)"
SQLITE_OUTBOX = """
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    message TEXT NOT NULL,
    url TEXT NOT NULL,
    body BLOB NOT NULL,
    created_at REAL NOT NULL DEFAULT (julianday('now')),
    sent_at REAL
);
CREATE INDEX outbox_unsent ON outbox (id) WHERE sent_at IS NULL;
"""
# As durable as PostgreSQL is, and as duly is.
SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA busy_timeout = 5000")
