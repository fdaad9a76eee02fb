"""The registry: every type of connection that duly joins, and how a user opens it.

``WAYS`` holds each type once, as its library hands it out. ``VARIANTS`` holds the same types under
other settings. A test that takes a `Way` opens it on a database of its store and writes one body:

    async with way.open(url) as user:
        await user.begin()
        assert (await user.dedup(scope, "evt_1")).first
        await user.commit()
"""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tests.stores.join.django_handles import django_handle
from tests.stores.join.handles import Handle
from tests.stores.join.postgres_handles import (
    asyncpg_handle,
    asyncpg_pool_handle,
    psycopg_async_handle,
    psycopg_block_handle,
    psycopg_handle,
)
from tests.stores.join.sqlalchemy_handles import alchemy_async_handle, alchemy_handle
from tests.stores.join.sqlite_handles import aiosqlite_handle, odd_sqlite3_handle, sqlite3_handle

__all__ = ["ALL", "VARIANTS", "WAYS", "Handle", "Way"]

Store = Literal["sqlite", "postgres"]
Colour = Literal["sync", "async"]
Begins = Literal["by itself", "when told"]
# One for each store, sync and async.
SHOWN = ("sqlite3", "aiosqlite", "psycopg", "asyncpg")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to hold a connection. ``begins`` says whether it can be joined while idle.

    Those that are ``wide`` are left to `make test-wide`, unless a test is about nothing else:
    see tests/support/sizes.py.
    """

    name: str
    store: Store
    colour: Colour
    open: Callable[[str], AbstractAsyncContextManager[Handle]]
    begins: Begins = "by itself"

    @property
    def wide(self) -> bool:
        """Whether another way shows the same store in the same mode."""
        return self.name not in SHOWN

    def __str__(self) -> str:
        return self.name


def alchemy(store: Store, driver: str, kind: Literal["connection", "session", "scoped"]) -> Way:
    """SQLAlchemy, blocking."""
    opened = partial(alchemy_handle, driver=driver, kind=kind)
    return Way(f"sqlalchemy-{kind}-{driver}", store, "sync", opened)


def alchemy_async(
    store: Store, driver: str, kind: Literal["connection", "session", "scoped"]
) -> Way:
    """SQLAlchemy, awaited."""
    opened = partial(alchemy_async_handle, driver=driver, kind=kind)
    return Way(f"sqlalchemy-async-{kind}-{driver}", store, "async", opened)


def run_sync(store: Store, driver: str, kind: Literal["connection", "session"]) -> Way:
    """SQLAlchemy, blocking inside awaited."""
    opened = partial(alchemy_async_handle, driver=driver, kind=kind, run_sync=True)
    return Way(f"sqlalchemy-run-sync-{kind}-{driver}", store, "sync", opened)


WAYS: list[Way] = [
    Way("sqlite3", "sqlite", "sync", sqlite3_handle),
    Way("aiosqlite", "sqlite", "async", aiosqlite_handle),
    Way("psycopg", "postgres", "sync", psycopg_handle),
    Way("psycopg-async", "postgres", "async", psycopg_async_handle),
    Way("asyncpg", "postgres", "async", asyncpg_handle, begins="when told"),
    Way("asyncpg-pool", "postgres", "async", asyncpg_pool_handle, begins="when told"),
    alchemy("sqlite", "pysqlite", "connection"),
    alchemy("sqlite", "pysqlite", "session"),
    alchemy("postgres", "psycopg", "connection"),
    alchemy("postgres", "psycopg", "session"),
    alchemy_async("sqlite", "aiosqlite", "connection"),
    alchemy_async("sqlite", "aiosqlite", "session"),
    alchemy_async("postgres", "psycopg", "connection"),
    alchemy_async("postgres", "psycopg", "session"),
    alchemy_async("postgres", "asyncpg", "connection"),
    alchemy_async("postgres", "asyncpg", "session"),
    Way("django-sqlite", "sqlite", "sync", django_handle, begins="when told"),
    Way("django-postgres", "postgres", "sync", django_handle, begins="when told"),
]

VARIANTS: list[Way] = [
    Way(
        "sqlite3-by-hand",
        "sqlite",
        "sync",
        partial(sqlite3_handle, isolation_level=None),
        begins="when told",
    ),
    Way("sqlite3-odd-settings", "sqlite", "sync", odd_sqlite3_handle),
    Way("psycopg-autocommit", "postgres", "sync", psycopg_block_handle, begins="when told"),
    Way(
        "sqlalchemy-begin-event",
        "sqlite",
        "sync",
        partial(alchemy_handle, driver="pysqlite", kind="connection", recipe=True),
    ),
    alchemy("sqlite", "pysqlite", "scoped"),
    alchemy_async("postgres", "asyncpg", "scoped"),
    run_sync("sqlite", "aiosqlite", "connection"),
    run_sync("postgres", "asyncpg", "connection"),
    run_sync("postgres", "asyncpg", "session"),
    run_sync("postgres", "psycopg", "connection"),
]
if sys.version_info >= (3, 12):
    VARIANTS += [
        Way(
            "sqlite3-always-in-transaction",
            "sqlite",
            "sync",
            partial(sqlite3_handle, begins=False, autocommit=False),
        ),
        Way(
            "sqlite3-autocommit",
            "sqlite",
            "sync",
            partial(sqlite3_handle, autocommit=True),
            begins="when told",
        ),
        Way(
            "sqlalchemy-always-in-transaction",
            "sqlite",
            "sync",
            partial(
                alchemy_handle,
                driver="pysqlite",
                kind="connection",
                connect_args={"autocommit": False},
            ),
        ),
    ]

ALL: list[Way] = [*WAYS, *VARIANTS]
