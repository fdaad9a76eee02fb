"""The code of schema version 6, as far as later migrations could break it: its statements about
events and deliveries, recorded beside this file, and the parameters that it gave them."""

import json
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from duly.core.session import Dialect
from duly.inbox.new_event import NewEvent
from duly.stores.sql.placeholders import Prepared, Style, prepare
from tests.support.catalogs import facts, sqlite_path

SCHEMA_VERSION = 6
HERE = Path(__file__).parent
NO_DIGEST = bytes(32)
WAIT = "2000ms"
# How many copies of one event it noted.
NOTES_FOR_EVENT = 50


def may_start(url: str) -> bool:
    """Whether it would have opened a store here: it compared this one number with its own."""
    return facts(url).get("schema_version") == str(SCHEMA_VERSION)


def receive(url: str, events: Sequence[NewEvent]) -> int:
    """Receive new events as its group commit did; return how many it wrote."""
    with closing(Connection(url)) as here:
        if here.dialect == "postgres":
            found = here.run("inbox_accept", **batch_values(events))
            return sum(row[0] is not None for row in found)
    return sum(receive_alone(url, event) for event in events)


def receive_alone(url: str, event: NewEvent) -> bool:
    """Receive a new event step by step; return whether it was new."""
    with closing(Connection(url)) as here, here.transaction():
        claimed = here.run(
            "claims_insert",
            scope=event.scope,
            digest=event.digest,
            key_text=event.key_text,
            fingerprint=event.fingerprint,
            ttl=event.ttl,
            state="done",
            token=event.token,
            lease=None,
        )
        if not claimed:
            return False
        here.run(
            "events_insert",
            id=event.id,
            scope=event.scope,
            digest=event.digest,
            replay=event.replay,
            source=event.source,
            event_id=event.event_id,
            type=event.type,
            flags=event.flag.value,
            event_time=event.event_time,
            headers=event.headers,
            body=event.body,
            fingerprint=event.fingerprint,
            body_ttl=event.body_ttl,
            ttl=event.ttl,
        )
        here.run(
            "deliveries_insert",
            event=event.id,
            outcome=event.status.value,
            secret=event.secret,
            remote=event.remote,
        )
        for job in event.jobs:
            here.run(
                "jobs_insert",
                id=job.id,
                scope=event.scope,
                name=job.name,
                queue=job.queue,
                event=event.id,
                payload=None,
                delay=0,
                at=None,
                priority=0,
                max_attempts=job.attempts,
            )
        return True


def note(url: str, event: NewEvent) -> bool:
    """Note a copy of a known event; return whether it was noted."""
    with closing(Connection(url)) as here:
        return bool(
            here.run(
                "deliveries_note",
                scope=event.scope,
                digest=event.digest,
                at=time.time_ns() // 1000,
                outcome="duplicate",
                secret=event.secret,
                remote=event.remote,
                most=NOTES_FOR_EVENT,
            )
        )


def read(url: str, ids: Sequence[str]) -> list[tuple[str, bytes]]:
    """Read events for their jobs: their names and bodies."""
    with closing(Connection(url)) as here:
        found = here.run("events_read", ids=json.dumps(list(ids)))
    return sorted((row[3], bytes(row[8])) for row in found)


def prune(url: str) -> int:
    """Delete the events whose time is over, with their deliveries; return how many went."""
    with closing(Connection(url)) as here, here.transaction():
        gone = [row[0] for row in here.run("events_prune", limit=1000)]
        here.run("deliveries_prune", events=json.dumps(gone))
        return len(gone)


class Connection:
    """A connection through which the recorded statements run."""

    def __init__(self, url: str) -> None:
        self.dialect: Dialect = "sqlite" if url.startswith("sqlite:") else "postgres"
        self._connection: Any = (
            sqlite3.connect(sqlite_path(url), isolation_level=None)
            if self.dialect == "sqlite"
            else psycopg.connect(url, autocommit=True)
        )

    @staticmethod
    def statement(dialect: Dialect, name: str) -> Prepared:
        """A recorded statement in the spelling of its driver."""
        text = (HERE / dialect / f"{name}.sql").read_text()
        lines = [line.strip() for line in text.splitlines() if not line.startswith("--")]
        named = "\n".join(lines).replace("{prefix}", "duly_")
        style: Style = "named" if dialect == "sqlite" else "pyformat"
        return prepare(re.sub(r"\{(\w+)\}", r"duly_\1", named), style)

    def run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run one recorded statement."""
        prepared = self.statement(self.dialect, statement)
        now = time.time_ns() // 1000 if self.dialect == "sqlite" else None
        given = {"now": now, "wait": WAIT, **values}
        found = self._connection.execute(
            prepared.text, {name: given[name] for name in prepared.order}
        )
        return list(found.fetchall())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: committed at its end, rolled back on an error."""
        if self.dialect == "postgres":
            with self._connection.transaction():
                yield
            return
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            yield

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def batch_values(events: Sequence[NewEvent]) -> dict[str, Any]:
    """The parameters of its ``inbox_accept``."""
    kinds: dict[tuple[object, ...], int] = {}
    each: list[tuple[object, ...]] = []
    fixed: list[bytes] = []
    blobs: list[bytes] = []
    start = 0
    for one in events:
        body = one.body or b""
        shared = (
            one.scope, one.source, one.type, one.flag, one.status, one.secret, one.remote, one.ttl,
            one.body_ttl,
        )  # fmt: skip
        sizes = (start, len(one.headers), len(body))
        kind = kinds.setdefault(shared, len(kinds))
        each.append((kind, one.event_id, one.event_time, *sizes))
        fixed += (one.digest, one.fingerprint, one.token)
        blobs += (one.headers, body)
        start += sizes[1] + sizes[2]
    guarded = any(one.replay is not None for one in events)
    handlers: dict[tuple[str, str, int], int] = {}
    jobs = [(index, job) for index, one in enumerate(events) for job in one.jobs]
    rows = [
        (index, handlers.setdefault((job.name, job.queue, job.attempts), len(handlers)))
        for index, job in jobs
    ]
    return {
        "kinds": json.dumps(list(kinds), ensure_ascii=False),
        "each": json.dumps(each, ensure_ascii=False),
        "fixed": b"".join(fixed),
        "guards": b"".join([one.replay or NO_DIGEST for one in events]) if guarded else b"",
        "blobs": b"".join(blobs),
        "jobs": json.dumps(rows),
        "job_ids": bytes.fromhex("".join([job.id for _, job in jobs]).replace("-", "")),
        "handlers": json.dumps(list(handlers)),
    }
