"""``Duly(begin=…)``: the user's own ORM opens the transactions of handlers.

A handler then works in a SQLAlchemy session or in a Django ``atomic`` block, and the claim of its
event is made on the same connection, in the same transaction.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from duly.core.errors import UnsafeStore, UsageError
from duly.core.validation import kind
from duly.stores.join.drivers import Mode, type_names
from duly.stores.orm.deadlines import Bounds
from duly.stores.revocable_connection import RevocableConnection
from duly.stores.sql.migrations import INSTALLATION, META_READ, schema_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import OpenedTransaction, Session
    from duly.stores.store import Store

FORMS = "a SQLAlchemy sessionmaker or async_sessionmaker, or duly.django.database('default')"
# What is passed by mistake, and what to pass instead.
REMEDIES = {
    "sqlalchemy.Engine": "pass sessionmaker(engine)",
    "sqlalchemy.AsyncEngine": "pass async_sessionmaker(engine)",
    "sqlalchemy.Session": "one session cannot serve every handler: pass its sessionmaker",
    "sqlalchemy.AsyncSession": "one session cannot serve every handler: pass its sessionmaker",
    "sqlalchemy.scoped_session": "pass its session_factory",
    "sqlalchemy.async_scoped_session": "pass its session_factory",
    "flask_sqlalchemy.SQLAlchemy": "pass sessionmaker(db.engine)",
    "django.BaseDatabaseWrapper": "pass duly.django.database('default')",
    "django.ConnectionProxy": "pass duly.django.database('default')",
}

# Seconds for the server to accept a cancel request.
CANCEL_TIMEOUT = 2.0
# The value of `PRAGMA synchronous` for FULL; EXTRA is more.
FULL = 2


class Begin(Protocol):
    """Opens the transactions of handlers."""

    @property
    def mode(self) -> Mode:
        """Whether the handlers that work in them are sync or async."""

    def url(self) -> str:
        """The address of the database, in duly's form."""

    def enter_loop(self) -> None:
        """Refuse the running event loop where the ORM's pool belongs to another one."""

    async def release(self) -> None:
        """Close the pooled connections of the running event loop, before it ends."""

    def open_transaction(self, bounds: Bounds) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, committed at the end of the block; raise where no COMMIT was seen."""

    def renew_connections(self) -> AbstractContextManager[None]:
        """Renew the thread's ORM connections around a job that opens no `tx`."""

    def surrounding(self) -> Surrounding | None:
        """The transaction that the caller has open around the call, where the ORM knows of one."""

    def refuse_surrounding(self, verb: str) -> None:
        """Refuse a verb that commits by itself inside a transaction of the caller's."""

    def refuse_moved(self) -> None:
        """Refuse an app whose ORM leads to another database than when the app was made."""

    def register_app(self, app: Any) -> None:
        """Called with the app that is bound to this, for the ORM's test runner."""


class Surrounding(Protocol):
    """A transaction that the caller of the app opened, and ends, in its own ORM."""

    def join_session(self) -> Session:
        """A session in it."""

    def open_savepoint(self) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A savepoint in it, rolled back on any error."""


class DjangoAlias:
    """One of Django's databases, named before its settings are read."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def __repr__(self) -> str:
        return f"duly.django.database({self.alias!r})"


def begin_of(begin: object, names: Names, clock: Clock | None) -> Begin:
    """The `Begin` for what the user passed as ``begin=``."""
    found = type_names(begin)
    if isinstance(begin, DjangoAlias):
        from duly.stores.orm.django import DjangoBegin

        return DjangoBegin(begin.alias, names, clock)
    if "sqlalchemy.sessionmaker" in found:
        from duly.stores.orm.sqlalchemy import SqlalchemySyncBegin

        return SqlalchemySyncBegin(begin, names, clock)
    if "sqlalchemy.async_sessionmaker" in found:
        from duly.stores.orm.sqlalchemy import SqlalchemyAsyncBegin

        return SqlalchemyAsyncBegin(begin, names, clock)
    remedy = next((f": {REMEDIES[name]}" for name in found if name in REMEDIES), "")
    raise UsageError(f"begin must be {FORMS}, not {kind(begin)}{remedy}")


class SameDatabase:
    """Verifies at its first use that ``begin=`` and the store lead to the same database.

    Otherwise the claims of handlers would be made in one database and looked for in another.
    """

    def __init__(self, begin: Begin, store: Store) -> None:
        self._begin = begin
        self._runner = store.async_runner if begin.mode == "async" else store.sync_runner
        self._strict = store.strict
        self._url = store.url
        self._verified = False

    @property
    def in_one_loop(self) -> bool:
        """Whether all its users must share one event loop: async connections belong to one."""
        return self._begin.mode == "async"

    def enter_loop(self) -> None:
        """Refuse the running event loop where the ORM's pool belongs to another one."""
        self._begin.enter_loop()

    @asynccontextmanager
    async def open_transaction(
        self, *, wait: timedelta, within: float | None = None, lasting: timedelta | None = None
    ) -> AsyncIterator[OpenedTransaction]:
        """A transaction of the ORM's; on PostgreSQL it may be left idle as long as it may last."""
        if not self._verified:
            await self._verify_database(wait, within)
        async with self._begin.open_transaction(Bounds(wait, within, lasting)) as opened:
            await opened.session.begin(wait)
            if lasting is not None and opened.session.dialect == "postgres":
                bound = max(lasting // timedelta(milliseconds=1), 1)
                await opened.session.execute_raw(
                    f"SET LOCAL idle_in_transaction_session_timeout = {bound}"
                )
            # An async handler is cancelled instead, and its session closed with it.
            with RevocableConnection(
                partial(cancel_driver_statement, opened.connection), exclusive=True
            ) as revocable:
                is_sync = self._begin.mode == "sync"
                yield opened._replace(revoke=revocable.revoke) if is_sync else opened

    async def join_session(self, around: Surrounding, *, wait: timedelta) -> Session:
        """A session in the caller's transaction."""
        session = around.join_session()
        await self._verify_in_transaction(session, wait)
        return session

    @asynccontextmanager
    async def open_savepoint(
        self, around: Surrounding, *, wait: timedelta
    ) -> AsyncIterator[OpenedTransaction]:
        """A savepoint in the caller's transaction."""
        async with around.open_savepoint() as opened:
            await self._verify_in_transaction(opened.session, wait)
            yield opened
            opened.session.new_work.clear()  # the COMMIT that keeps it is the caller's

    async def _verify_database(self, wait: timedelta, within: float | None) -> None:
        ours = await self._runner.run_autocommit(installation_id, wait=wait)
        async with self._begin.open_transaction(Bounds(wait, within)) as opened:
            await opened.session.begin(wait)
            # No tables at all: begin= leads to another database, which is never migrated.
            made = (await schema_version(opened.session)).migrated_to > 0
            theirs = await installation_id(opened.session) if made else None
            if self._strict:
                await refuse_unsynced(opened.session)
        self._compare_installations(ours, theirs)

    async def _verify_in_transaction(self, session: Session, wait: timedelta) -> None:
        """Verify in the caller's transaction, in which no statement of ours may fail."""
        await session.begin(None)
        if self._verified:
            return
        made = (await schema_version(session)).migrated_to > 0
        if made and await is_file_of(session, self._url):
            self._verified = True
            return
        ours = await self._runner.run_autocommit(installation_id, wait=wait)
        self._compare_installations(ours, await installation_id(session) if made else None)

    def _compare_installations(self, ours: str | None, theirs: str | None) -> None:
        if ours is None or ours != theirs:
            raise UnsafeStore(
                "begin= and the url of the app lead to different databases: claims would be made "
                "in one and looked for in the other. Leave out the url, or make them the same; in "
                "tests, bind the app to the test database with the fixture duly_app or "
                "testing.isolated(…)"
            )
        self._verified = True


async def refuse_unsynced(session: Session) -> None:
    """Refuse a connection whose commits are not on disk when they return.

    The work of an inline handler is acknowledged after a commit of the ORM's, not of duly's.
    """
    if session.dialect == "sqlite":
        [found] = await session.execute("PRAGMA synchronous", {})
        weak, remedy = int(found["synchronous"]) < FULL, "PRAGMA synchronous = FULL"
    else:
        [found] = await session.execute("SELECT current_setting('synchronous_commit') AS it", {})
        weak, remedy = found["it"] == "off", "synchronous_commit = on"
    if weak:
        raise UnsafeStore(
            "the connections of begin= do not wait for the disk when they commit, so a power cut "
            f'can lose what was acknowledged: set {remedy} on them, or pass durability="any" to '
            "accept the loss"
        )


def cancel_driver_statement(connection: Any) -> None:
    """Cancel the statement that a handler waits for, from another thread."""
    pooled = getattr(connection, "connection", connection)  # SQLAlchemy's around the driver's
    driver = getattr(pooled, "driver_connection", pooled)
    with suppress(Exception):  # the statement has ended, or its deadline ends it
        if hasattr(driver, "interrupt"):
            driver.interrupt()
        elif hasattr(driver, "cancel_safe"):  # psycopg 3.2: bounded, where the server is silent
            driver.cancel_safe(timeout=CANCEL_TIMEOUT)
        elif hasattr(driver, "cancel"):
            driver.cancel()


async def is_file_of(session: Session, url: str) -> bool:
    """Whether the session is on the SQLite file of that url.

    A connection of duly's own cannot always be asked. The first one that opens the file switches it
    to a write-ahead log, and where the caller has written, that waits for the caller's lock.
    """
    if session.dialect != "sqlite":
        return False
    files = await session.execute("PRAGMA database_list", {})
    [found] = [row["file"] for row in files if row["name"] == "main"]
    return is_same_file(str(found), unquote(url.removeprefix("sqlite:///")))


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file; False where one cannot be read."""
    with suppress(OSError, ValueError):
        return Path(one).samefile(other)
    return False


async def installation_id(session: Session) -> str | None:
    """The id that a database was given when duly's tables were made in it."""
    rows = await session.rows(META_READ)
    return next((row["value"] for row in rows if row["name"] == INSTALLATION), None)
