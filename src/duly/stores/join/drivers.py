"""The connections of the drivers themselves: how each is reached, and in which colour.

Types are recognised by name, along the whole inheritance, so that no driver is imported unless
its connection was passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from duly.core.errors import UsageError
from duly.stores.sql.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Dialect, Owner, Session
    from duly.stores.sql.placeholders import Style

Mode = Literal["sync", "async"]


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver: its colour, its database, how it spells parameters, and the wire to it."""

    mode: Mode
    dialect: Dialect
    style: Style
    adapter: Callable[[Any], Any]


def sqlite3_adapter(connection: Any) -> Any:
    """A ``sqlite3.Connection``."""
    from duly.stores.sqlite.adapters import Sqlite3Adapter

    return Sqlite3Adapter(connection)


def aiosqlite_adapter(connection: Any) -> Any:
    """An ``aiosqlite.Connection``."""
    from duly.stores.sqlite.adapters import AiosqliteAdapter

    return AiosqliteAdapter(connection)


def psycopg_adapter(connection: Any) -> Any:
    """A ``psycopg.Connection``."""
    from duly.stores.postgres.psycopg_adapters import PsycopgAdapter

    return PsycopgAdapter(connection)


def psycopg_async_adapter(connection: Any) -> Any:
    """A ``psycopg.AsyncConnection``."""
    from duly.stores.postgres.psycopg_adapters import PsycopgAsyncAdapter

    return PsycopgAsyncAdapter(connection)


def asyncpg_adapter(connection: Any) -> Any:
    """An ``asyncpg.Connection``, or the proxy that its pool hands out."""
    from duly.stores.postgres.asyncpg_adapter import AsyncpgAdapter

    return AsyncpgAdapter(connection)


DRIVERS: dict[str, Driver] = {
    "sqlite3.Connection": Driver("sync", "sqlite", "named", sqlite3_adapter),
    "aiosqlite.Connection": Driver("async", "sqlite", "named", aiosqlite_adapter),
    "psycopg.Connection": Driver("sync", "postgres", "pyformat", psycopg_adapter),
    "psycopg.AsyncConnection": Driver("async", "postgres", "pyformat", psycopg_async_adapter),
    "asyncpg.Connection": Driver("async", "postgres", "dollar", asyncpg_adapter),
    "asyncpg.PoolConnectionProxy": Driver("async", "postgres", "dollar", asyncpg_adapter),
}


def type_names(target: object) -> tuple[str, ...]:
    """The classes of an object, most special first, as package and class name."""
    kind = type(target)
    known = TYPE_NAMES.get(kind)
    if known is None:
        known = TYPE_NAMES[kind] = tuple(
            f"{base.__module__.split('.')[0]}.{base.__qualname__}" for base in kind.__mro__
        )
    return known


# An application passes a few types again and again.
TYPE_NAMES: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()


def find_driver(connection: object) -> Driver | None:
    """The driver of a connection, by the names of its classes."""
    return next((DRIVERS[name] for name in type_names(connection) if name in DRIVERS), None)


def driver_session(
    driver: Driver, adapter: Any, names: Names, clock: Clock | None, owner: Owner | None = None
) -> Session:
    """A session over the wire to a driver's connection."""
    check_names(names, driver.dialect)
    spelled = statements(driver.dialect, names, driver.style)
    if driver.dialect == "sqlite":
        from duly.stores.sqlite.session import SqliteSession

        return SqliteSession(adapter, spelled, clock, owner)
    from duly.stores.postgres.session import PostgresSession

    return PostgresSession(adapter, spelled, clock, owner=owner)


def check_names(names: Names, dialect: Dialect) -> None:
    """Refuse a schema where there are none."""
    if dialect == "sqlite" and names.schema is not None:
        raise UsageError("schema= and DULY_SCHEMA are for PostgreSQL: on SQLite use prefix=")
