"""Recognise the connection that the caller passed, and join its open transaction.

Types are recognised by name, along the whole inheritance, so that nothing is imported unless it
was passed. An object that is not in the table is refused before anything is written, with one
sentence that says what to pass instead. The object itself never appears in a message: an address
may hold a password.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from duly.core.clock import Clock
from duly.core.defaults import Names
from duly.core.errors import NotJoinable, SyncAsyncMismatch
from duly.core.session import Session
from duly.stores.join.drivers import DRIVERS, Driver, Mode, driver_session, type_names

__all__ = ["Mode", "join", "recognise"]

Joiner = Callable[[Any, Names, Clock | None], Session]

JOINABLE = (
    "pass a duly.store(...), or an open sqlite3, aiosqlite, psycopg, asyncpg, SQLAlchemy 2 or "
    "Django connection"
)
AWAIT = "await it first, and pass what it gives"
STORE = "a URL is not a connection: pass duly.store(url), or the connection whose transaction it is"
CURSOR = "a cursor is not a connection: pass its connection"
TRANSACTION = "a transaction object is not a connection: pass the connection it was begun on"
POOL = "a pool holds many connections: take one, `with pool.connection() as connection:`, pass that"
ASYNC_POOL = (
    "a pool holds many connections: take one, `async with pool.connection() as connection:`, and "
    "pass that"
)
ASYNCPG_POOL = (
    "a pool holds many connections: take one, `async with pool.acquire() as connection:`, and "
    "pass that inside `async with connection.transaction():`"
)
MANAGER = "enter it first, `with ... as connection:`, and pass what it gives"
ASYNC_MANAGER = "enter it first, `async with ... as connection:`, and pass what it gives"
ENGINE = "an engine opens connections: pass one, `with engine.begin() as connection:`"
ASYNC_ENGINE = "an engine opens connections: pass one, `async with engine.begin() as connection:`"
MAKER = "a sessionmaker makes sessions: pass one, `with maker.begin() as session:`"
ASYNC_MAKER = "a sessionmaker makes sessions: pass one, `async with maker.begin() as session:`"
FLASK = "Flask-SQLAlchemy's own object is not a session: pass db.session"
ALIASES = 'django.db.connections holds many: pass connections["default"]'
PSYCOPG2 = "psycopg2 is not supported: use psycopg 3 (pip install 'psycopg[binary]')"
DATABASE = "this database is not supported: duly joins PostgreSQL and SQLite"

REMEDIES: dict[str, str] = {
    "builtins.str": STORE,
    "builtins.bytes": STORE,
    "pathlib.PurePath": 'a path is not a connection: pass duly.store("sqlite:///...")',
    "sqlalchemy.URL": STORE,
    "sqlite3.Cursor": CURSOR,
    "aiosqlite.Cursor": CURSOR,
    "psycopg.BaseCursor": CURSOR,
    "sqlalchemy.CursorResult": CURSOR,
    "django.CursorWrapper": "a cursor is not a connection: pass django.db.connection",
    "psycopg.BaseTransaction": TRANSACTION,
    "asyncpg.Transaction": TRANSACTION,
    "sqlalchemy.Transaction": TRANSACTION,
    "sqlalchemy.AsyncTransaction": TRANSACTION,
    "sqlalchemy.SessionTransaction": "pass the session that this transaction belongs to",
    "sqlalchemy.AsyncSessionTransaction": "pass the session that this transaction belongs to",
    "psycopg_pool.ConnectionPool": POOL,
    "psycopg_pool.AsyncConnectionPool": ASYNC_POOL,
    "asyncpg.Pool": ASYNCPG_POOL,
    "contextlib._GeneratorContextManager": MANAGER,
    "contextlib._AsyncGeneratorContextManager": ASYNC_MANAGER,
    "sqlalchemy.Engine": ENGINE,
    "sqlalchemy.AsyncEngine": ASYNC_ENGINE,
    "sqlalchemy.sessionmaker": MAKER,
    "sqlalchemy.async_sessionmaker": ASYNC_MAKER,
    "flask_sqlalchemy.SQLAlchemy": FLASK,
    "django.ConnectionHandler": ALIASES,
    "psycopg2.connection": PSYCOPG2,
    "pymysql.Connection": DATABASE,
    "MySQLdb.Connection": DATABASE,
    "mysql.MySQLConnectionAbstract": DATABASE,
}


@dataclass(frozen=True, slots=True)
class JoinableType:
    """One type of connection: sync or async, and how to make a session of it."""

    mode: Mode
    join: Joiner


def join(target: object, names: Names, clock: Clock | None, *, mode: Mode, verb: str) -> Session:
    """A session over the caller's connection, which must be of the verb's mode."""
    kind = recognise(target)
    if kind is None:
        raise NotJoinable(refusal(target))
    if kind.mode != mode:
        twin = twin_of(verb, kind.mode)
        raise SyncAsyncMismatch(f"{describe(target)} is {kind.mode}: use {twin}")
    return kind.join(target, names, clock)


def twin_of(verb: str, mode: Mode) -> str:
    """How to call a verb in the other mode: one of the package, or one of an app."""
    if verb.startswith("app."):
        return f"await app.aio.{verb[4:]}(…)" if mode == "async" else f"{verb}(…)"
    return f"duly.aio.{verb} and await it" if mode == "async" else f"duly.{verb}"


def recognise(target: object) -> JoinableType | None:
    """The kind of a connection, by the names of its classes."""
    try:
        return RECOGNISED[type(target)]
    except KeyError:
        names = type_names(target)
        kind = next((JOINABLE_TYPES[name] for name in names if name in JOINABLE_TYPES), None)
        RECOGNISED[type(target)] = kind
        return kind


# An application passes a few types again and again.
RECOGNISED: WeakKeyDictionary[type, JoinableType | None] = WeakKeyDictionary()


def refusal(target: object) -> str:
    """Why this object cannot be joined, and what to pass instead."""
    known = (REMEDIES[name] for name in type_names(target) if name in REMEDIES)
    otherwise = AWAIT if inspect.isawaitable(target) else JOINABLE
    if type(target).__name__.endswith("Store"):
        otherwise = "leave it out, or pass the connection whose transaction it is"
    return f"{describe(target)} cannot be joined by duly: {next(known, otherwise)}"


def describe(target: object) -> str:
    """A type as its user would import it."""
    kind = type(target)
    package = kind.__module__.split(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def join_driver(driver: Driver) -> JoinableType:
    """The kind of a driver's own connections, whose transactions no framework tracks."""
    return JoinableType(
        driver.mode,
        lambda connection, names, clock: driver_session(
            driver, driver.adapter(connection), names, clock
        ),
    )


def join_sqlalchemy(target: Any, names: Names, clock: Clock | None) -> Session:
    """A ``Connection``, a ``Session``, or the ``scoped_session`` that stands for one."""
    from duly.stores.join.sqlalchemy import sync_session

    return sync_session(target, names, clock)


def join_sqlalchemy_async(target: Any, names: Names, clock: Clock | None) -> Session:
    """An ``AsyncConnection``, an ``AsyncSession``, or the ``async_scoped_session`` for one."""
    from duly.stores.join.sqlalchemy import async_session

    return async_session(target, names, clock)


def join_django(target: Any, names: Names, clock: Clock | None) -> Session:
    """``django.db.connections[alias]``, or ``django.db.connection``, which stands for one."""
    from duly.stores.join.django import sync_session

    return sync_session(target, names, clock)


JOINABLE_TYPES: dict[str, JoinableType] = {
    **{name: join_driver(driver) for name, driver in DRIVERS.items()},
    "sqlalchemy.Connection": JoinableType("sync", join_sqlalchemy),
    "sqlalchemy.Session": JoinableType("sync", join_sqlalchemy),
    "sqlalchemy.scoped_session": JoinableType("sync", join_sqlalchemy),
    "sqlalchemy.AsyncConnection": JoinableType("async", join_sqlalchemy_async),
    "sqlalchemy.AsyncSession": JoinableType("async", join_sqlalchemy_async),
    "sqlalchemy.async_scoped_session": JoinableType("async", join_sqlalchemy_async),
    "django.BaseDatabaseWrapper": JoinableType("sync", join_django),
    "django.ConnectionProxy": JoinableType("sync", join_django),
}
