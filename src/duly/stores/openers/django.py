"""Django's databases: each handler's transaction is a block of ``atomic``."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Misuse
from duly._kernel.extras import needs
from duly._kernel.session import Opened, ended
from duly.stores.join import join
from duly.stores.openers.addresses import postgres_address, sqlite_address
from duly.stores.openers.deadlines import BlockingDeadline
from duly.stores.openers.endings import (
    Ending,
    must_throw_away,
    refuse_left_open,
    refuse_unseen_commit,
    refuse_unsound,
)

with needs("django", "Django"):
    from django.core.exceptions import ImproperlyConfigured
    from django.db import close_old_connections, connections, transaction
    from django.utils.connection import ConnectionDoesNotExist

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from duly._kernel.clock import Clock
    from duly._kernel.options import Names
    from duly.stores.drivers import Colour
    from duly.stores.openers.deadlines import Bounds

LEAVING = threading.local()


class Alias:
    """One of the databases in Django's settings."""

    colour: Colour = "sync"

    def __init__(self, alias: str, names: Names, clock: Clock | None) -> None:
        self._alias = alias
        self._names = names
        self._clock = clock

    def url(self) -> str:
        """The address of the database, from Django's settings."""
        connection = self._connection()
        if connection.vendor == "sqlite":
            return sqlite_address(connection.settings_dict["NAME"])
        if connection.vendor != "postgresql":
            raise Misuse(
                f"duly works with PostgreSQL and SQLite, and the Django database {self._alias!r} "
                f"is {connection.vendor}"
            )
        return postgres_address(connection.get_connection_params())

    def _connection(self) -> Any:
        try:
            return connections[self._alias]
        except ConnectionDoesNotExist:
            raise Misuse(f"Django's DATABASES have no {self._alias!r}") from None
        except ImproperlyConfigured as problem:
            raise Misuse(
                "Django's settings are not there yet: set DJANGO_SETTINGS_MODULE before the app is "
                "made, or give it a url"
            ) from problem

    def enter_loop(self) -> None:
        """Do nothing: Django's connections block, and belong to no event loop."""

    async def release(self) -> None:
        """Do nothing, likewise."""

    @asynccontextmanager
    async def opened(self, bounds: Bounds) -> AsyncIterator[Opened]:
        """A block of ``atomic``, committed at its end."""
        close_old_connections()  # as Django does before and after each request of its own
        try:
            connection = self._connection()
            with (
                Ending() as ending,
                BlockingDeadline(bounds) as deadline,
                watch(connection, deadline),
            ):
                with committing(connection):
                    joined = join(connection, self._names, self._clock, colour="sync", verb="begin")
                    yield Opened(
                        joined,
                        connection.connection,
                        connection,
                        at_ease=deadline.start_handling,
                    )
                    ending.handled = True
                    deadline.start_ending()
                    if connection.needs_rollback or not connection.in_atomic_block:
                        raise ended()
                    await refuse_unsound(connection.connection)
                refuse_unseen_commit(connection.connection)
        finally:
            close_old_connections()
            close_with_thread(self._alias)


@contextmanager
def watch(connection: Any, deadline: BlockingDeadline) -> Iterator[None]:
    """Django's connection is idle before its transaction; it is closed if it is not idle after."""
    connection.ensure_connection()
    driver = connection.connection
    if connection.in_atomic_block or not connection.get_autocommit():
        yield  # a durable block refuses that itself, and leaves the caller's connection alone
        return
    try:
        deadline.watch(driver)
        refuse_left_open(driver)
        yield
    finally:
        deadline.stop()
        if deadline.passed or must_throw_away(driver):
            connection.close()


class ThreadEnd:
    """Goes with its thread, and closes what Django would leave open there: it has no such moment.

    Handlers run on threads of duly's where the server is asynchronous, and those end with the app.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __del__(self) -> None:
        self._connection.close()


def close_with_thread(alias: str) -> None:
    """Have a connection that outlives its request, by CONN_MAX_AGE, not outlive its thread."""
    connection = connections[alias]
    if connection.connection is None or threading.current_thread() is threading.main_thread():
        return
    if getattr(LEAVING, alias, None) is None:
        setattr(LEAVING, alias, ThreadEnd(connection))


def committing(connection: Any) -> Any:
    """A block of ``atomic`` that commits at its end, and not with some block around it."""
    if not connection.in_atomic_block:
        connection.ensure_connection()
        if not connection.get_autocommit():
            raise Misuse(
                f"the Django database {connection.alias!r} has AUTOCOMMIT off, so that atomic() "
                "commits nothing: leave it on for the database of duly.django(…)"
            )
    return transaction.atomic(using=connection.alias, durable=True)
