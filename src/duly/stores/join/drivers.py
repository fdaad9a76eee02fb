"""The drivers whose own connections duly joins: sqlite3, aiosqlite, psycopg and asyncpg.

Types are recognised by name, along the whole inheritance, so that no driver is imported unless
its connection was passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from duly.core.errors import UsageError
from duly.stores.sql.statements import statements

if TYPE_CHECKING:
    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Dialect, Owner, Session
    from duly.stores.sql.placeholders import Style

Mode = Literal["sync", "async"]


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver: sync or async, its database, and how it spells parameters."""

    mode: Mode
    dialect: Dialect
    style: Style

    def adapter(self, connection: Any) -> Any:
        """The adapter for a connection of this driver."""
        return adapter_class(self.dialect, self.style, self.mode)(connection)


# Both are imported when a connection is first passed; looked up again for each call, an import
# costs as much as a statement on SQLite.
@lru_cache
def adapter_class(dialect: Dialect, style: Style, mode: Mode) -> Any:
    """The class of a driver's adapter."""
    if dialect == "sqlite":
        from duly.stores.sqlite.adapters import AiosqliteAdapter, Sqlite3Adapter

        return Sqlite3Adapter if mode == "sync" else AiosqliteAdapter
    if style == "dollar":
        from duly.stores.postgres.asyncpg_adapter import AsyncpgAdapter

        return AsyncpgAdapter
    from duly.stores.postgres.psycopg_adapters import PsycopgAdapter, PsycopgAsyncAdapter

    return PsycopgAdapter if mode == "sync" else PsycopgAsyncAdapter


@lru_cache
def session_class(dialect: Dialect) -> Any:
    """The class of a database's sessions."""
    if dialect == "sqlite":
        from duly.stores.sqlite.session import SqliteSession

        return SqliteSession
    from duly.stores.postgres.session import PostgresSession

    return PostgresSession


DRIVERS: dict[str, Driver] = {
    "sqlite3.Connection": Driver("sync", "sqlite", "named"),
    "aiosqlite.Connection": Driver("async", "sqlite", "named"),
    "psycopg.Connection": Driver("sync", "postgres", "pyformat"),
    "psycopg.AsyncConnection": Driver("async", "postgres", "pyformat"),
    "asyncpg.Connection": Driver("async", "postgres", "dollar"),
    # What asyncpg's pool hands out.
    "asyncpg.PoolConnectionProxy": Driver("async", "postgres", "dollar"),
}


def type_names(target: object) -> tuple[str, ...]:
    """The classes of an object, the most derived first, as package and class name."""
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
    """A session over a driver's connection."""
    check_names(names, driver.dialect)
    spelled = statements(driver.dialect, names, driver.style)
    session: Session = session_class(driver.dialect)(adapter, spelled, clock, owner=owner)
    return session


def check_names(names: Names, dialect: Dialect) -> None:
    """Refuse a schema where there are none."""
    if dialect == "sqlite" and names.schema is not None:
        raise UsageError("schema= and DULY_SCHEMA are for PostgreSQL: on SQLite use prefix=")
