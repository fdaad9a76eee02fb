"""A store, a connection beside it and a clock, driven in either colour by code that blocks.

Whoever writes a test over an arena writes it once: `call` runs what a verb returns to its end, in
the arena's own event loop where it must be awaited.
"""

import asyncio
import inspect
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg

import duly
from duly.core.clock import from_microseconds
from duly.stores.sqlite.store import MemoryStore
from tests.conftest import HandClock

CLAIMS = (
    "SELECT scope, digest, state, epoch, first_seen, expires_at, lease_until, result, token "
    "FROM duly_claims"
)
TABLES = ("duly_claims", "duly_versions")


@dataclass(frozen=True)
class Row:
    """A claim as the table has it."""

    scope: str
    digest: bytes
    state: str
    epoch: int
    first_seen: datetime
    expires_at: datetime | None
    lease_until: datetime | None
    result: bytes | None
    token: bytes | None


class Arena:
    """One store in one colour."""

    def __init__(self, store: duly.types.Store, clock: HandClock, *, awaited: bool) -> None:
        self.store = store
        self.clock = clock
        self.awaited = awaited
        self.verbs: Any = duly.aio if awaited else duly  # Any: two modules with the same verbs
        self.connection: Any = None  # Any: one of four drivers
        self.reader: Any = None
        self._connect: Callable[[], Any] = lambda: None
        self._loop = asyncio.Runner()

    def connect(self, function: Callable[..., Any], *args: object, **options: object) -> None:
        """Open the user's connection, and know how to open another."""
        self._connect = lambda: self.call(function, *args, **options)
        self.connection = self._connect()

    def reconnect(self) -> None:
        """Drop the user's connection with whatever is open on it: a test failed in the middle."""
        self.call(self.connection.close)
        self.connection = self._connect()

    def call(self, function: Callable[..., Any], *args: object, **options: object) -> Any:
        """Call it and wait for what it returns."""
        returned = function(*args, **options)
        return self._loop.run(settled(returned)) if inspect.isawaitable(returned) else returned

    def execute(self, text: str) -> None:
        """Run one statement on the user's connection."""
        self.call(self.connection.execute, text)

    def enter(self, turns: Any) -> Any:
        """The beginning of ``with turns as turn``, in the arena's colour."""
        return self.call(turns.__aenter__ if self.awaited else turns.__enter__)

    def leave(self, turns: Any, error: BaseException | None = None) -> None:
        """The end of the block, by an error or without."""
        left = turns.__aexit__ if self.awaited else turns.__exit__
        self.call(left, None if error is None else type(error), error, None)

    def claims(self, connection: Any = None) -> list[Row]:
        """Every claim there is, as the connection given sees it."""
        cursor = self.call((connection or self.reader).execute, CLAIMS)
        return [row_from(row) for row in self.call(cursor.fetchall)]

    def clear(self) -> None:
        """Forget everything."""
        for table in TABLES:
            self.reader.execute(f"DELETE FROM {table}")

    def close(self) -> None:
        """Close what the arena opened, in the loop that opened it."""
        self.call(self.connection.close)
        self.reader.close()
        self.call(self.store.aclose)
        self._loop.close()


async def settled(awaitable: Awaitable[Any]) -> Any:
    """A coroutine over anything that can be awaited, for the loop to run."""
    return await awaitable


def row_from(values: Sequence[Any]) -> Row:
    """SQLite keeps microseconds, PostgreSQL moments."""
    moments = [from_microseconds(each) if isinstance(each, int) else each for each in values[4:7]]
    return Row(*values[:4], *moments, *values[7:])


def sqlite_arena(path: Path, *, awaited: bool) -> Arena:
    """A SQLite file."""
    clock = HandClock()
    return on_file(duly.store(f"sqlite:///{path}", clock=clock), clock, path, awaited=awaited)


def memory_arena() -> Arena:
    """The temporary store; only a test goes and looks for its file."""
    clock = HandClock()
    store = duly.store("memory:", clock=clock)
    assert isinstance(store, MemoryStore)
    return on_file(store, clock, Path(store._folder.name) / "memory.db", awaited=False)


def on_file(store: duly.types.Store, clock: HandClock, path: Path, *, awaited: bool) -> Arena:
    """An arena over SQLite, with a connection of the user's beside the store."""
    arena = Arena(store.open(), clock, awaited=awaited)
    arena.reader = sqlite3.connect(path, isolation_level=None)
    connect = aiosqlite.connect if awaited else sqlite3.connect
    arena.connect(connect, path, isolation_level=None)
    return arena


def postgres_arena(url: str, *, awaited: bool) -> Arena:
    """A PostgreSQL database, with a connection of the user's beside the store."""
    clock = HandClock()
    arena = Arena(duly.store(url, clock=clock), clock, awaited=awaited)
    arena.reader = psycopg.connect(url, autocommit=True)
    connect = psycopg.AsyncConnection.connect if awaited else psycopg.connect
    arena.connect(connect, url, autocommit=True)
    return arena


@asynccontextmanager
async def users_transaction(driver: str, url: str) -> AsyncIterator[Any]:
    """A transaction of the user's that is awaited, rolled back at the end."""
    connection: Any  # Any: one of three drivers
    if driver == "asyncpg":
        connection = await asyncpg.connect(url)
        ours = connection.transaction()
        await ours.start()
        yield connection
        await ours.rollback()
    elif driver == "psycopg":
        connection = await psycopg.AsyncConnection.connect(url)
        yield connection
        await connection.rollback()
    else:
        connection = await aiosqlite.connect(url.removeprefix("sqlite:///"), timeout=1)
        yield connection
        await connection.rollback()
    await connection.close()
