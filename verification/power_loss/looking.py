"""Reads the database that a power cut left, and compares it with what the world knows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from verification.power_loss.promises import World

FILE = "shop.db"
# The log's index as it may be found: nothing in it can be trusted.
RUBBISH = b"\xa5" * 32768
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"


@dataclass(slots=True)
class Seen:
    """What is in the database after its recovery.

    Args:
        sound: what the database's own check says, ``ok`` if nothing.
        tables: the tables there are.
        events: how often each event is there.
        effects: how often each effect is there.
        total: what the counter beside them says.
        jobs: the ids of jobs and messages, waiting or over.
        keys: the idempotency keys of the external steps that were intended.
        digest: the same for two files with the same content.
    """

    sound: str
    tables: set[str] = field(default_factory=set)
    events: Counter[str] = field(default_factory=Counter)
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    total: int = 0
    jobs: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    digest: bytes = b""


class Database(Protocol):
    """What was found when the power came back."""

    @property
    def url(self) -> str:
        """How duly opens it."""

    def run(self, statements: Sequence[str]) -> None:
        """Run statements in one transaction."""

    def look(self) -> Seen:
        """What is in it."""


class SqliteFile:
    """The files of a state in a folder, opened with the real sqlite3."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    @property
    def url(self) -> str:
        """How duly opens it."""
        return f"sqlite:///{self._path}"

    def lay_out(self, files: Mapping[str, bytes]) -> None:
        """Put the files of a state into the folder, and rubbish for the log's index."""
        for path in self._folder.iterdir():
            path.unlink()
        for name, content in files.items():
            (self._folder / name).write_bytes(content)
        if f"{FILE}-wal" in files:
            (self._folder / f"{FILE}-shm").write_bytes(RUBBISH)

    def run(self, statements: Sequence[str]) -> None:
        """Run statements in one transaction."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def look(self) -> Seen:
        """Open the file as any program does, let SQLite recover it, and read it."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:

            def ask(text: str) -> list[Any]:
                return connection.execute(text).fetchall()

            try:
                [[sound], *_] = ask("PRAGMA integrity_check")
                seen = Seen(sound)
                if sound == "ok":
                    read(ask, {name for (name,) in ask(SQLITE_TABLES)}, seen)
                ask("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.DatabaseError as problem:
                return Seen(str(problem))
        seen.digest = hashlib.sha256(self._path.read_bytes()).digest()
        return seen


def read(ask: Callable[[str], list[Any]], tables: set[str], seen: Seen) -> None:
    """What the tables say, as far as there are tables."""

    def rows(table: str, columns: str) -> list[Any]:
        return ask(f"SELECT {columns} FROM {table}") if table in tables else []

    seen.tables = tables
    seen.events = Counter(name for (name,) in rows("duly_events", "event_id"))
    for table, column in (("duly_jobs", "id"), ("duly_outbox", "id"), ("duly_history", "job")):
        seen.jobs |= {str(job) for (job,) in rows(table, column)}
    seen.keys = {key for (key,) in rows("duly_effects", "key")}
    seen.total = sum(n for (n,) in rows("totals", "n"))
    seen.effects = Counter((kind, name) for kind, name in rows("effects", "kind, name"))


def broken(seen: Seen, world: World) -> Iterator[str]:
    """What the world was told and is not so, and what is there that must not be."""
    if seen.sound != "ok":
        yield f"the database is not sound: {seen.sound}"
        return
    if world.created and "effects" not in seen.tables:
        yield "the tables were said to be there, and are not"
    for name in sorted(filter(world.remembers, world.answered)):
        if not seen.events[name]:
            yield f"{name} was answered 2xx, and is not there (I1)"
        elif world.sent[name][1] == "ring" and not seen.effects["ring", name]:
            yield f"{name} was answered 2xx, and what was done inline is not there (I1)"
    for name, job in world.enqueued.items():
        if job not in seen.jobs:
            yield f"the job for {name} was said to be enqueued, and is not there (I1)"
    yield from forgotten(seen, world)
    yield from doubled(seen)


def forgotten(seen: Seen, world: World) -> Iterator[str]:
    """What was done outside, and the database knows nothing of."""
    for (kind, name), keys in world.calls.items():
        if world.remembers(name) and not keys <= seen.keys:
            yield f"{kind} was called for {name}, and its intent is not there (I11)"
    for name, ids in world.mails.items():
        if world.remembers(name) and not ids <= seen.jobs:
            yield f"a message for {name} was sent, and it is not there (I11)"


def doubled(seen: Seen) -> Iterator[str]:
    """What is there twice."""
    for what, times in [*seen.events.items(), *seen.effects.items()]:
        if times > 1:
            yield f"{what} is there {times} times (I3)"
    if seen.total != seen.effects.total():
        yield f"{seen.effects.total()} effects are there, and the counter says {seen.total} (I3)"
