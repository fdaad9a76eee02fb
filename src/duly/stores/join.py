"""Recognising what the user handed over, and joining the transaction that is theirs.

Types are recognised by name, along the whole inheritance, so that no driver is imported unless
its connection was passed. What is not in the table is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from duly._kernel.clock import Clock
from duly._kernel.errors import Misuse, NotJoinable, WrongColour
from duly._kernel.options import Names
from duly._kernel.session import Owner, Session
from duly.stores.sql.statements import statements

Colour = Literal["sync", "async"]
Joiner = Callable[[Any, Names, Clock | None, Owner | None], Session]


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of connection: its colour, and how to make a session of it."""

    colour: Colour
    join: Joiner


def join(
    target: object, names: Names, clock: Clock | None, *, colour: Colour, verb: str
) -> Session:
    """A session over the user's connection, in the colour of the verb that was called."""
    kind = recognise(target)
    if kind is None:
        raise NotJoinable(
            f"{describe(target)} cannot be joined by duly: pass a duly.store(...), or an open "
            "sqlite3, aiosqlite, psycopg, asyncpg, SQLAlchemy 2 or Django connection"
        )
    if kind.colour != colour:
        twin = f"duly.aio.{verb} and await it" if kind.colour == "async" else f"duly.{verb}"
        raise WrongColour(f"{describe(target)} is {kind.colour}: use {twin}")
    return kind.join(target, names, clock, None)


def recognise(target: object) -> Kind | None:
    """The kind of a connection, by the names of its classes."""
    for base in type(target).__mro__:
        kind = KINDS.get(f"{base.__module__.split('.')[0]}.{base.__qualname__}")
        if kind is not None:
            return kind
    return None


def describe(target: object) -> str:
    """A type as its user would import it."""
    kind = type(target)
    return f"a {kind.__module__.split('.')[0]}.{kind.__qualname__}"


def join_sqlite3(
    connection: Any, names: Names, clock: Clock | None, owner: Owner | None
) -> Session:
    """A ``sqlite3.Connection``."""
    from duly.stores.sqlite.wires import BlockingWire

    return sqlite_session(BlockingWire(connection), names, clock, owner)


def join_aiosqlite(
    connection: Any, names: Names, clock: Clock | None, owner: Owner | None
) -> Session:
    """An ``aiosqlite.Connection``."""
    from duly.stores.sqlite.wires import AiosqliteWire

    return sqlite_session(AiosqliteWire(connection), names, clock, owner)


def sqlite_session(wire: Any, names: Names, clock: Clock | None, owner: Owner | None) -> Session:
    """A session on SQLite."""
    from duly.stores.sqlite.session import SqliteSession

    if names.schema is not None:
        raise Misuse("schema= and DULY_SCHEMA are for PostgreSQL: on SQLite use prefix=")
    return SqliteSession(wire, statements("sqlite", names, "named"), clock, owner)


def join_psycopg(
    connection: Any, names: Names, clock: Clock | None, owner: Owner | None
) -> Session:
    """A ``psycopg.Connection``."""
    from duly.stores.postgres.psycopg_wires import BlockingWire
    from duly.stores.postgres.session import PostgresSession

    spelled = statements("postgres", names, "pyformat")
    return PostgresSession(BlockingWire(connection), spelled, clock, owner=owner)


def join_psycopg_async(
    connection: Any, names: Names, clock: Clock | None, owner: Owner | None
) -> Session:
    """A ``psycopg.AsyncConnection``."""
    from duly.stores.postgres.psycopg_wires import AwaitedWire
    from duly.stores.postgres.session import PostgresSession

    spelled = statements("postgres", names, "pyformat")
    return PostgresSession(AwaitedWire(connection), spelled, clock, owner=owner)


def join_asyncpg(
    connection: Any, names: Names, clock: Clock | None, owner: Owner | None
) -> Session:
    """An ``asyncpg.Connection``, or the proxy that its pool hands out."""
    from duly.stores.postgres.asyncpg_wire import AsyncpgWire
    from duly.stores.postgres.session import PostgresSession

    spelled = statements("postgres", names, "dollar")
    return PostgresSession(AsyncpgWire(connection), spelled, clock, owner=owner)


KINDS: dict[str, Kind] = {
    "sqlite3.Connection": Kind("sync", join_sqlite3),
    "aiosqlite.Connection": Kind("async", join_aiosqlite),
    "psycopg.Connection": Kind("sync", join_psycopg),
    "psycopg.AsyncConnection": Kind("async", join_psycopg_async),
    "asyncpg.Connection": Kind("async", join_asyncpg),
    "asyncpg.PoolConnectionProxy": Kind("async", join_asyncpg),
}
