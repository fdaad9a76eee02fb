"""The peers' tables: what a careful team would make for webhooks and the jobs that handle them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

import duly
from benchmarks.ingesting.contenders import MOUNTED, SERVED

ON_POSTGRES = """
CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    event_id text NOT NULL,
    type text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    headers text NOT NULL,
    body bytea NOT NULL,
    fingerprint bytea NOT NULL,
    UNIQUE (source, event_id)
);
CREATE TABLE jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event bigint NOT NULL,
    handler text NOT NULL,
    state text NOT NULL DEFAULT 'ready',
    run_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0
);
CREATE INDEX jobs_ready ON jobs (run_at) WHERE state = 'ready';
"""
ON_SQLITE = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    received_at INTEGER NOT NULL DEFAULT (unixepoch()),
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    UNIQUE (source, event_id)
) STRICT;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    event INTEGER NOT NULL,
    handler TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'ready',
    run_at INTEGER NOT NULL DEFAULT (unixepoch()),
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX jobs_ready ON jobs (run_at) WHERE state = 'ready';
"""
# Of every connection to a SQLite file here: as durable as duly's own.
SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA busy_timeout = 5000")


def make(url: str, peer: str) -> None:
    """The tables of one contender, in a database that nobody else uses."""
    if peer in (SERVED, MOUNTED):
        duly.store(url).migrate()
    elif url.startswith("postgresql:"):
        with psycopg.connect(url) as connection:
            connection.execute(ON_POSTGRES)
    else:
        opened = sqlite3.connect(file_of(url))
        for setting in SETTINGS:
            opened.execute(setting)
        opened.executescript(ON_SQLITE)
        opened.close()


def kept(url: str, peer: str) -> tuple[int, int]:
    """How many events and how many jobs are there."""
    prefix = "duly_" if peer in (SERVED, MOUNTED) else ""
    question = f"SELECT (SELECT count(*) FROM {prefix}events), (SELECT count(*) FROM {prefix}jobs)"
    if url.startswith("postgresql:"):
        with psycopg.connect(url) as connection:
            row = connection.execute(question.encode()).fetchone()
    else:
        opened = sqlite3.connect(file_of(url))
        row = opened.execute(question).fetchone()
        opened.close()
    if row is None:
        raise AssertionError("a question without condition has one row")
    return row[0], row[1]


def file_of(url: str) -> Path:
    """The file of a `sqlite:///` address."""
    return Path(urlsplit(url).path.removeprefix("/")) if "////" not in url else Path(url[10:])
