"""``begin=`` on SQLAlchemy: each handler's transaction is a session of its sessionmaker.

duly takes the connection from the engine itself and passes it to the session. So it can check the
driver's connection before BEGIN and after COMMIT, while no other code has it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from duly.core.errors import UsageError
from duly.core.session import OpenedTransaction, ended_transaction_error
from duly.jobs.tx import refuse_ending
from duly.stores.join.drivers import type_names
from duly.stores.join.recognise import join
from duly.stores.join.sqlalchemy import checked_dialect, translate_connection_errors
from duly.stores.orm.addresses import postgres_address, sqlite_address
from duly.stores.orm.commit_check import (
    OrmErrorClassifier,
    must_throw_away,
    refuse_left_open,
    refuse_unseen_commit,
    refuse_unsound,
)
from duly.stores.orm.deadlines import AsyncDeadline, SyncDeadline, cut_connection
from duly.stores.orm.loop_guard import LoopGuard
from duly.stores.shielding import shield_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.stores.join.drivers import Mode
    from duly.stores.orm.deadlines import Bounds

# Seconds for the ROLLBACK of a failed transaction, before its connection is closed.
ROLLBACK_SECONDS = 3.0


class SqlalchemyBegin:
    """Shared by sync and async sessionmakers."""

    mode: Mode

    def __init__(self, maker: Any, names: Names, clock: Clock | None) -> None:
        self._session_factory = maker
        self._names = names
        self._clock = clock
        self._engine = engine_of(maker)
        if self._engine is not None:
            checked_dialect(self._engine.dialect)
            refuse_mode_mismatch(self._engine, self.mode)

    def url(self) -> str:
        """The address of the engine that the factory's sessions use."""
        if self._engine is None:
            raise UsageError("begin= has no engine: give the sessionmaker bind=, or the app a url")
        url, dialect = self._engine.url, self._engine.dialect
        if dialect.name == "sqlite":
            return sqlite_address(url.database)
        return postgres_address(dialect.create_connect_args(url)[1])

    def renew_connections(self) -> AbstractContextManager[None]:
        """Do nothing: connections belong to the engine's pool, and to no thread."""
        return nullcontext()

    def surrounding(self) -> None:
        """None: a sessionmaker does not know the sessions that the caller has open."""

    def refuse_surrounding(self, verb: str) -> None:
        """Do nothing: a sessionmaker does not know the sessions that the caller has open."""

    def refuse_moved(self) -> None:
        """Do nothing: an engine leads where it led when it was made."""

    def register_app(self, app: Any) -> None:
        """Do nothing: SQLAlchemy has no test runner."""


class SqlalchemySyncBegin(SqlalchemyBegin):
    """A ``sessionmaker``."""

    mode: Mode = "sync"

    def enter_loop(self) -> None:
        """Do nothing: sync connections belong to no event loop."""

    async def release(self) -> None:
        """Do nothing: sync connections belong to no event loop."""

    @asynccontextmanager
    async def open_transaction(self, bounds: Bounds) -> AsyncIterator[OpenedTransaction]:
        """A session in a transaction, committed at the end of the block."""
        with (
            OrmErrorClassifier() as ending,
            self._session_factory() as session,
            SyncDeadline(bounds) as deadline,
            connect(session, deadline) as (connection, driver),
        ):
            begun = track_connections(session)
            transaction = session.begin()
            session.connection(bind_arguments={"bind": connection})
            joined = join(session, self._names, self._clock, mode="sync", verb="begin")
            with refuse_session_reset(session):
                yield OpenedTransaction(
                    joined, connection, session, restore_timeouts=deadline.start_handling
                )
            ending.handler_done = True
            deadline.start_ending()
            refuse_ended(transaction)
            refuse_writes_elsewhere(session, connection, begun)
            await refuse_unsound(driver)
            transaction.commit()
            refuse_unseen_commit(driver)


class SqlalchemyAsyncBegin(SqlalchemyBegin):
    """An ``async_sessionmaker``."""

    mode: Mode = "async"

    def __init__(self, maker: Any, names: Names, clock: Clock | None) -> None:
        super().__init__(maker, names, clock)
        self._guard = LoopGuard()

    def enter_loop(self) -> None:
        """Reserve the engine's pool for the running loop; refuse where another loop has it."""
        engine = engine_of(self._session_factory)
        if engine is not None:
            self._guard.enter(engine)

    async def release(self) -> None:
        """Close the pooled connections of the running event loop, before it ends."""
        engine = engine_of(self._session_factory)
        if engine is not None and self._guard.holds(engine):
            engine = getattr(engine, "sync_engine", engine)
            await async_engine(engine).dispose()
            self._guard.leave()

    @asynccontextmanager
    async def open_transaction(self, bounds: Bounds) -> AsyncIterator[OpenedTransaction]:
        """A session in a transaction, committed at the end of the block."""
        with OrmErrorClassifier() as ending:
            async with (
                self._session_factory() as session,
                AsyncDeadline(bounds) as deadline,
                connect_async(session, self._guard, deadline) as (connection, driver),
            ):
                begun = track_connections(session.sync_session)
                transaction = await session.begin()
                await session.connection(bind_arguments={"bind": connection.sync_connection})
                joined = join(session, self._names, self._clock, mode="async", verb="begin")
                # An AsyncConnection takes no attributes; it forwards to its sync connection.
                with refuse_ending(connection.sync_connection), refuse_session_reset(session):
                    yield OpenedTransaction(
                        joined, connection, session, restore_timeouts=deadline.start_handling
                    )
                ending.handler_done = True
                deadline.start_ending()
                refuse_ended(transaction)
                own = connection.sync_connection
                await session.run_sync(refuse_writes_elsewhere, own, begun)
                await refuse_unsound(driver)
                await transaction.commit()
                refuse_unseen_commit(driver)


@contextmanager
def connect(session: Any, deadline: SyncDeadline) -> Iterator[tuple[Connection, Any]]:
    """A connection for one transaction, idle before it; closed if it is not idle after it."""
    with translate_connection_errors():
        connection: Connection = bind_of(session).connect()
    driver = connection.connection.driver_connection
    try:
        deadline.watch(driver)
        prepare_session(session, connection, driver)
        yield connection, driver
    except BaseException:
        with suppress(SQLAlchemyError):  # the connection may be gone
            session.rollback()
        raise
    finally:
        deadline.stop()
        if deadline.is_over or must_throw_away(driver):
            connection.invalidate()
        connection.close()


def async_engine(engine: Any) -> AsyncEngine:
    """The async form of an engine.

    The import is here because it needs greenlet, which SQLAlchemy 2.1 installs only with its extra
    ``asyncio``. A synchronous sessionmaker works without.
    """
    from sqlalchemy.ext.asyncio import AsyncEngine

    return AsyncEngine(engine)


@asynccontextmanager
async def connect_async(
    session: Any, guard: LoopGuard, deadline: AsyncDeadline
) -> AsyncIterator[tuple[AsyncConnection, Any]]:
    """An async connection for one transaction; the pool must be the running event loop's."""
    with translate_connection_errors():
        engine = bind_of(session)
        guard.enter(engine)
        connection = await async_engine(engine).connect()
    driver = (await connection.get_raw_connection()).driver_connection
    try:
        deadline.watch(driver)
        prepare_session(session, connection.sync_connection, driver)
        yield connection, driver
    except BaseException:
        deadline.stop()
        if deadline.is_over:
            cut_connection(driver)
        await shield_to_end(roll_back(session, connection, driver))
        raise
    deadline.stop()
    await connection.close()


async def roll_back(session: Any, connection: AsyncConnection, driver: Any) -> None:
    """Roll back a failed transaction; close its connection where that fails."""
    await end_within(ROLLBACK_SECONDS, session.rollback(), driver)
    if must_throw_away(driver):
        await end_within(ROLLBACK_SECONDS, connection.invalidate(), driver)
    await end_within(ROLLBACK_SECONDS, connection.close(), driver)


async def end_within(seconds: float, work: Coroutine[Any, Any, None], driver: Any) -> None:
    """Await work on a connection; cut the connection where the server does not answer.

    Errors are ignored: the connection's state says afterwards whether it is of use. A cancellation
    is not enough, because asyncpg waits for the server to confirm that, too.
    """
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        cut_connection(driver)
        await asyncio.wait([task], timeout=seconds)
    if task.done() and not task.cancelled():
        task.exception()  # or asyncio logs it as never retrieved


def bind_of(session: Any) -> Any:
    """The engine that a session works with."""
    bind = session.get_bind()
    if "sqlalchemy.Connection" in type_names(bind):
        raise UsageError(
            "begin= is bound to one connection, which cannot serve every handler, and whose "
            "transaction duly does not end: bind the sessionmaker to an engine"
        )
    return bind


def prepare_session(session: Any, connection: Any, driver: Any) -> None:
    """Refuse a connection in a transaction of other code; let the session end SQLAlchemy's own.

    SQLAlchemy itself may have begun, for a listener that ran a statement on connecting. The
    session commits that transaction or rolls it back.
    """
    if connection.in_transaction():
        getattr(session, "sync_session", session).join_transaction_mode = "control_fully"
    else:
        refuse_left_open(driver)


@contextmanager
def refuse_session_reset(session: Any) -> Iterator[None]:
    """Refuse ``reset`` and ``invalidate``, with which a session would give up its connection."""

    def refuse(*_: object, **__: object) -> None:
        raise UsageError(
            "a handler's session is ended by duly: return to commit, raise to roll back"
        )

    session.reset = session.invalidate = refuse
    try:
        yield
    finally:
        del session.reset, session.invalidate


def refuse_ended(transaction: Any) -> None:
    """Refuse to commit another transaction than the one that the claim was made in."""
    if not transaction.is_active:
        raise ended_transaction_error()


def track_connections(session: Any) -> set[Connection]:
    """The connections on which a session begins, one for each engine, as it begins."""
    begun: set[Connection] = set()
    event.listen(session, "after_begin", lambda *arguments: begun.add(arguments[2]))
    return begun


def refuse_writes_elsewhere(session: Any, own: Any, begun: set[Connection]) -> None:
    """Refuse to commit where the session has written through a second engine, too.

    Each engine has a COMMIT of its own, and SQLAlchemy sends them in any order. Where the other one
    fails after ours, the event is known and its next delivery a duplicate: that work is lost.
    """
    session.flush()  # which may begin on another engine
    for other in begun - {own}:
        if not session.twophase and has_written(other):
            raise UsageError(
                "the session of this handler has written through two engines (bind= and binds=), "
                "which commit one after the other, so that one may be lost: write through the "
                "engine of begin= only, and to the other database in a job, in a session of its own"
            )


def has_written(connection: Any) -> bool:
    """Whether a connection has something to commit; True where its database does not tell."""
    if connection.dialect.name == "sqlite":
        return bool(connection.connection.driver_connection.in_transaction)
    if connection.dialect.name == "postgresql":
        asked = connection.exec_driver_sql("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
        return bool(asked.scalar())
    return True


def engine_of(maker: Any) -> Any:
    """The engine of a factory's sessions, sync or async; None where they have several."""
    bind = maker.kw.get("bind")
    return None if bind is None else bind.engine


def refuse_mode_mismatch(engine: Any, mode: Mode) -> None:
    """Refuse a sync factory over an async engine, and an async one over a sync engine."""
    if engine.dialect.is_async and mode == "sync":
        raise UsageError(
            "this sessionmaker has an async engine: pass an async_sessionmaker as begin="
        )
    if not engine.dialect.is_async and mode == "async":
        raise UsageError("this async_sessionmaker has a sync engine: use create_async_engine")
