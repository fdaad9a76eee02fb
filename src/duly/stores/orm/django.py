"""Django's databases: each handler's transaction is a block of ``atomic``."""

from __future__ import annotations

import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.core.session import OpenedTransaction, ended_transaction_error
from duly.stores.join.recognise import join
from duly.stores.orm.addresses import postgres_address, sqlite_address
from duly.stores.orm.commit_check import (
    OrmErrorClassifier,
    must_throw_away,
    refuse_left_open,
    refuse_unseen_commit,
    refuse_unsound,
)
from duly.stores.orm.deadlines import SyncDeadline

with needs("django", "Django"):
    from django.core.exceptions import ImproperlyConfigured
    from django.db import connections, transaction
    from django.utils.connection import ConnectionDoesNotExist

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractContextManager

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Session
    from duly.stores.join.drivers import Mode
    from duly.stores.orm.deadlines import Bounds
    from duly.stores.orm.django_tests import ClosableApp

CLOSERS = threading.local()


class DjangoBegin:
    """One of the databases in Django's settings."""

    mode: Mode = "sync"

    def __init__(self, alias: str, names: Names, clock: Clock | None) -> None:
        self._alias = alias
        self._names = names
        self._clock = clock
        # The name of the database that the app was made for; None where it was given a url.
        self._database_name: Any = None

    def url(self) -> str:
        """The address of the database, from Django's settings."""
        connection = self._connection()
        self._database_name = connection.settings_dict["NAME"]
        if connection.vendor == "sqlite":
            refuse_tests_in_memory(connection)
            return sqlite_address(connection.settings_dict["NAME"])
        if connection.vendor != "postgresql":
            raise UsageError(
                f"duly works with PostgreSQL and SQLite, and the Django database {self._alias!r} "
                f"is {connection.vendor}"
            )
        return postgres_address(connection.get_connection_params())

    def _connection(self) -> Any:
        try:
            return connections[self._alias]
        except ConnectionDoesNotExist:
            raise UsageError(f"Django's DATABASES have no {self._alias!r}") from None
        except ImproperlyConfigured as problem:
            raise UsageError(
                "Django's settings are not there yet: set DJANGO_SETTINGS_MODULE before the app is "
                "made, or give it a url"
            ) from problem

    def enter_loop(self) -> None:
        """Do nothing: Django's connections block, and belong to no event loop."""

    async def release(self) -> None:
        """Do nothing, likewise."""

    @asynccontextmanager
    async def open_transaction(self, bounds: Bounds) -> AsyncIterator[OpenedTransaction]:
        """A block of ``atomic``, committed at its end."""
        connection, deadline = self._connection(), SyncDeadline(bounds)
        refuse_block_around(connection)
        with renew_old_connections(self._alias):
            block = commit_in_time(connection, deadline)
            async with self._session_in(connection, block, deadline) as opened:
                yield opened

    def renew_connections(self) -> AbstractContextManager[None]:
        """Close this thread's connections past their age, before and after a job without ``tx``."""
        return renew_old_connections(self._alias)

    def surrounding(self) -> DjangoBegin | None:
        """This alias where the caller has an ``atomic`` block open on it in this thread."""
        self.refuse_moved()
        return self if self._connection().in_atomic_block else None

    def refuse_moved(self) -> None:
        """Refuse to write to the real database while Django's tests run on another."""
        name = self._connection().settings_dict["NAME"]
        if self._database_name is not None and self._database_name != name:
            raise UsageError(
                f"this app was made for the Django database {self._database_name}, and Django's "
                "test runner "
                f"has put {name} in its place: bind the app to that with the fixture duly_app or "
                "testing.isolated(…), or make the app later"
            )

    def register_app(self, app: ClosableApp) -> None:
        """While Django's tests run, let the app's rows and connections end with Django's own."""
        if "django.test.utils" in sys.modules:
            from duly.stores.orm import django_tests

            django_tests.clean_up_with_django(self._connection(), app)

    def join_session(self) -> Session:
        """A session in the caller's block."""
        return join(self._connection(), self._names, self._clock, mode="sync", verb="begin")

    @asynccontextmanager
    async def open_savepoint(self) -> AsyncIterator[OpenedTransaction]:
        """A savepoint in the caller's block, whose COMMIT keeps or loses it."""
        connection = self._connection()
        block = transaction.atomic(using=self._alias)
        async with self._session_in(connection, block) as opened:
            yield opened

    @asynccontextmanager
    async def _session_in(
        self,
        connection: Any,
        block: AbstractContextManager[None],
        deadline: SyncDeadline | None = None,
    ) -> AsyncIterator[OpenedTransaction]:
        """A session in a new block, which ends only if what is in it is whole."""
        with OrmErrorClassifier() as ending, block:
            opened = OpenedTransaction(self.join_session(), connection.connection, connection)
            if deadline is not None:
                opened = opened._replace(restore_timeouts=deadline.start_handling)
            blocks = len(connection.atomic_blocks)
            yield opened
            ending.handler_done = True
            if deadline is not None:
                deadline.start_ending()
            left_open = len(connection.atomic_blocks) != blocks
            if connection.needs_rollback or not connection.in_atomic_block or left_open:
                raise ended_transaction_error()
            await refuse_unsound(connection.connection)


@contextmanager
def renew_old_connections(alias: str) -> Iterator[None]:
    """Close connections past their age before and after, as Django does for its requests.

    Those that the caller has a transaction open on are left alone: closing one rolls it back.
    """
    callers = [one for one in connections.all(initialized_only=True) if is_in_use(one)]
    close_old_connections(callers)
    try:
        yield
    finally:
        close_old_connections(callers)
        if connections[alias] not in callers:
            close_with_thread(alias)


def is_in_use(connection: Any) -> bool:
    """Whether a transaction is open on a Django connection: in ``atomic``, or by hand."""
    by_hand = connection.autocommit != connection.settings_dict["AUTOCOMMIT"]
    return connection.in_atomic_block or (connection.connection is not None and by_hand)


def close_old_connections(spared: list[Any]) -> None:
    """Close this thread's connections that are broken or past CONN_MAX_AGE."""
    for connection in connections.all(initialized_only=True):
        if connection not in spared:
            connection.close_if_unusable_or_obsolete()


def refuse_block_around(connection: Any) -> None:
    """Refuse to acknowledge anything before the COMMIT of a block that is not ours.

    Django's ``TestCase`` has such a block around each test, and rolls it back. There a savepoint
    stands for the commit, as it does for ``atomic(durable=True)``.
    """
    if connection.in_atomic_block and not connection.atomic_blocks[-1]._from_testcase:
        alias = connection.alias
        raise UsageError(
            f"transaction.atomic() is open on the Django database {alias!r} around this delivery "
            "or job, which would be acknowledged before that block commits: call it outside of "
            "the block, and with ATOMIC_REQUESTS mark the view: "
            f"@transaction.non_atomic_requests(using={alias!r})"
        )


@contextmanager
def commit_in_time(connection: Any, deadline: SyncDeadline) -> Iterator[None]:
    """A block that commits at its end, on a connection that is idle before and after it.

    Inside the block of a ``TestCase`` it is a savepoint, and there is no commit to look for.
    """
    if connection.in_atomic_block or not connection.get_autocommit():
        with durable_atomic(connection):
            yield
        return
    connection.ensure_connection()
    driver = connection.connection
    with deadline:
        try:
            deadline.watch(driver)
            refuse_left_open(driver)
            with durable_atomic(connection):
                yield
            refuse_unseen_commit(driver)
        finally:
            deadline.stop()
            if deadline.is_over or must_throw_away(driver):
                connection.close()
            if connection.in_atomic_block or connection.atomic_blocks:
                # The handler left a block open. Django would take the next one for a part of it.
                connection.close()
                del connections[connection.alias]


class ThreadConnectionCloser:
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
    if getattr(CLOSERS, alias, None) is None:
        setattr(CLOSERS, alias, ThreadConnectionCloser(connection))


def durable_atomic(connection: Any) -> Any:
    """A block of ``atomic`` that commits at its end, or a savepoint in the block of a TestCase."""
    if not connection.in_atomic_block:
        connection.ensure_connection()
        if not connection.get_autocommit():
            raise UsageError(
                f"the Django database {connection.alias!r} has AUTOCOMMIT off, so that atomic() "
                "commits nothing: leave it on for the database of duly.django.database(…)"
            )
    return transaction.atomic(using=connection.alias, durable=True)


def refuse_tests_in_memory(connection: Any) -> None:
    """Refuse Django's usual test database on SQLite, which has one connection only."""
    from duly.stores.orm.django_tests import tests_are_running

    if connection.is_in_memory_db() and tests_are_running():
        raise UsageError(
            "Django tests on an in-memory SQLite unless told otherwise, and duly's own connection "
            f'cannot see that: write "TEST": {{"NAME": "test.sqlite3"}} into '
            f"DATABASES[{connection.alias!r}]"
        )
