"""Events as they arrive, made by hand, and what the inbox holds of them afterwards."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

import duly
from duly.core.ids import new_id
from duly.core.keys import as_bytes, readable_text
from duly.inbox.new_event import Flag, NewEvent, Status, event_digest
from duly.jobs.enqueue import EventJob
from duly.stores.sqlite.store import MemoryStore

DAY = 24 * 60 * 60 * 1_000_000
BODY = b'{"type": "invoice.paid"}'
# The first delivery of each event: in its own row, or in one beside it that code of schema version
# 6 wrote.
FIRST_DELIVERIES = """
SELECT event_id, outcome, remote FROM duly_events WHERE outcome IS NOT NULL
 UNION ALL
SELECT event.event_id, delivery.outcome, delivery.remote
  FROM duly_deliveries AS delivery JOIN duly_events AS event ON event.id = delivery.event
 WHERE delivery.outcome <> 'duplicate'"""


def arrival(scope: str, event_id: str, **changes: Any) -> NewEvent:
    """One event that nobody had before, remembered for thirty days, with one job."""
    body: bytes = changes.get("body", BODY)
    made = NewEvent(
        id=new_id(),
        scope=scope,
        digest=event_digest(scope, event_id),
        key_text=readable_text(as_bytes(event_id)),
        replay=None,
        signed=True,
        source="shop",
        event_id=event_id,
        type="invoice.paid",
        status=Status.ACCEPTED,
        flag=Flag.NONE,
        event_time=None,
        headers=b"{}",
        body=body,
        fingerprint=hashlib.sha256(body).digest(),
        ttl=30 * DAY,
        body_ttl=14 * DAY,
        secret=None,
        remote=None,
        jobs=(a_job(),),
    )
    return made._replace(**changes)


def a_job(name: str = "handle") -> EventJob:
    """A job with an id of its own."""
    return EventJob(new_id(), name, "default", 5)


@contextmanager
def looking(store: duly.types.Store) -> Iterator[Any]:
    """A connection beside the store that commits by itself, whichever database it is."""
    if store.url.startswith("postgresql:"):
        with psycopg.connect(store.url, autocommit=True) as connection:
            yield connection
        return
    with closing(sqlite3.connect(file_of(store), isolation_level=None)) as connection:
        yield connection


def file_of(store: duly.types.Store) -> Path:
    """The file under a SQLite store; only a test goes and looks for that of `memory:`."""
    if isinstance(store, MemoryStore):
        return Path(store._folder.name) / "memory.db"
    return Path(store.url.removeprefix("sqlite:///"))


def found(store: duly.types.Store, query: str) -> list[tuple[Any, ...]]:
    """What a query finds that is committed now."""
    with looking(store) as connection:
        return [tuple(row) for row in connection.execute(query).fetchall()]


def done(store: duly.types.Store, statement: str) -> None:
    """Change something at once, past duly."""
    with looking(store) as connection:
        connection.execute(statement)
