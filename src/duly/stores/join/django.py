"""Django's connections: joined inside ``transaction.atomic()``, nested through it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction

from duly.core.errors import NotJoinable
from duly.core.session import ended_transaction_error
from duly.stores.join.drivers import driver_session, find_driver
from duly.stores.join.lazy_session import lazy_session
from duly.stores.join.recognise import DATABASE, PSYCOPG2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Dialect, Session

DIALECTS: dict[str, Dialect] = {"postgresql": "postgres", "sqlite": "sqlite"}


def sync_session(target: Any, names: Names, clock: Clock | None) -> Session:
    """A session in the open ``atomic`` block of a Django connection."""
    # django.db.connection is a proxy: its alias leads to what it stands for in this thread.
    current = connections[target.alias]
    if target != current:
        raise NotJoinable(
            "this Django connection is not the one of this thread: pass "
            f'django.db.connections["{target.alias}"]'
        )
    dialect = DIALECTS.get(current.vendor)
    if dialect is None:
        raise NotJoinable(f"Django's {current.vendor} cannot be joined: {DATABASE}")

    async def find() -> tuple[Session, DjangoOwner]:
        refuse_unsound(current)
        driver = find_driver(current.connection)
        if driver is None:
            raise NotJoinable(f"this Django connection cannot be joined: {PSYCOPG2}")
        owner, adapter = DjangoOwner(current), driver.adapter(current.connection)
        return driver_session(driver, adapter, names, clock, owner), owner

    return lazy_session(find, names, dialect)


class DjangoOwner:
    """The owner of a transaction begun by ``atomic``."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def begin(self) -> None:
        """Do nothing: ``atomic`` has begun, or the connection was refused."""

    def refuse_ended(self) -> None:
        """Raise outside ``atomic``; inside, Django itself forbids commit()."""
        if not self._connection.in_atomic_block:
            raise ended_transaction_error()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A savepoint that Django knows of, so that ``on_commit`` and its flags stay right."""
        with transaction.atomic(using=self._connection.alias):
            yield
            if self._connection.needs_rollback:
                # Django would roll back silently, and the caller would acknowledge.
                raise ended_transaction_error()


def refuse_unsound(connection: Any) -> None:
    """Refuse a connection without an ``atomic`` block that can still be committed."""
    if not connection.in_atomic_block:
        raise NotJoinable(
            "this Django connection is outside a transaction and would commit each statement by "
            f'itself: call duly inside `with transaction.atomic(using="{connection.alias}"):`'
        )
    if connection.closed_in_transaction or connection.connection is None:
        raise NotJoinable(
            "this Django connection was closed inside its transaction: leave the atomic block and "
            "run it again"
        )
    if connection.needs_rollback:
        raise NotJoinable(
            "this Django transaction has failed and will be rolled back: leave the atomic block "
            "and run it again"
        )
