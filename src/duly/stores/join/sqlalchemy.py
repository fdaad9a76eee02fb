"""SQLAlchemy's connections and sessions, sync and async: nested by ``begin_nested``.

SQLAlchemy must see the transaction begin, or its own ``commit()`` would find nothing to commit
and our claim would be lost when the connection returns to its pool.

SQLAlchemy's own error messages may quote statements and their parameters, so they are only chained.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import (
    DBAPIError,
    InvalidRequestError,
    MissingGreenlet,
    PendingRollbackError,
    ResourceClosedError,
    UnboundExecutionError,
)

from duly.core.errors import NotJoinable, SyncAsyncMismatch, UsageError
from duly.core.session import ended_transaction_error
from duly.stores.join.drivers import Driver, driver_session, find_driver, type_names
from duly.stores.join.lazy_session import lazy_session
from duly.stores.join.recognise import DATABASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from sqlalchemy import Connection, Dialect
    from sqlalchemy.ext.asyncio import AsyncConnection

    from duly.core import session as kernel
    from duly.core.clock import Clock
    from duly.core.defaults import Names

# Makes SQLAlchemy begin, and asyncpg's adapter with it, without touching anything.
PLAIN_STATEMENT = "SELECT 1"
DIALECTS: dict[str, kernel.Dialect] = {"postgresql": "postgres", "sqlite": "sqlite"}
DRIVERS = frozenset({"pysqlite", "aiosqlite", "psycopg", "psycopg_async", "asyncpg"})
INSTEAD = {
    "postgresql": "use postgresql+psycopg://, which serves sync and async, or postgresql+asyncpg://",
    "sqlite": "use sqlite:// or sqlite+aiosqlite://",
}

IN_FAILED_TRANSACTION = "25P02"
FAILED = "this SQLAlchemy transaction has failed: roll it back, then run it again"
REASONS: dict[type[InvalidRequestError], tuple[type[UsageError], str]] = {
    MissingGreenlet: (
        SyncAsyncMismatch,
        "this SQLAlchemy object belongs to an async engine: pass the AsyncConnection or "
        "AsyncSession to the same verb of duly.aio, or call this one inside its run_sync()",
    ),
    PendingRollbackError: (NotJoinable, FAILED),
    ResourceClosedError: (NotJoinable, "this SQLAlchemy connection is closed: pass an open one"),
    UnboundExecutionError: (
        NotJoinable,
        "this SQLAlchemy session has a different engine for each class: pass the connection of "
        "the one that duly's tables are in, session.connection(bind_arguments={...})",
    ),
}


@contextmanager
def translate_sqlalchemy_errors() -> Iterator[None]:
    """Turn SQLAlchemy's refusal to begin or nest into an error that says what to do."""
    try:
        yield
    except InvalidRequestError as problem:
        for kind, (error, reason) in REASONS.items():
            if isinstance(problem, kind):
                raise error(reason) from problem
        raise
    except DBAPIError as problem:
        if getattr(problem.orig, "sqlstate", None) == IN_FAILED_TRANSACTION:
            raise NotJoinable(FAILED) from problem
        raise


@contextmanager
def translate_connection_errors() -> Iterator[None]:
    """Turn every refusal to hand out a connection into an error that says so."""
    try:
        with translate_sqlalchemy_errors():
            yield
    except InvalidRequestError as problem:
        raise NotJoinable(
            "SQLAlchemy has no open connection here: pass a connection that is open "
            "(`async with engine.connect() as connection:`), or a session that may begin"
        ) from problem


def sync_session(target: Any, names: Names, clock: Clock | None) -> kernel.Session:
    """A session in the transaction of a ``Connection`` or a ``Session``; under ``run_sync`` too."""
    owned = target() if is_sqlalchemy(target, "scoped_session") else target
    is_session = is_sqlalchemy(owned, "Session")
    with translate_connection_errors():
        dialect = checked_dialect((owned.get_bind() if is_session else owned).dialect)

    async def find() -> tuple[kernel.Session, SqlalchemySyncOwner]:
        with translate_connection_errors():
            connection: Connection = owned.connection() if is_session else owned
            pooled = connection.connection
        reached = find_driver_connection(connection.dialect, pooled.driver_connection)
        if reached.driver.mode == "async":
            bridged = RunSyncAdapter(reached.adapter, pooled.dbapi_connection)
            bridged.refuse_outside_greenlet()
            reached = replace(reached, adapter=bridged)
        owner = SqlalchemySyncOwner(owned, connection, reached)
        return driver_session(reached.driver, reached.adapter, names, clock, owner), owner

    return lazy_session(find, names, dialect)


def async_session(target: Any, names: Names, clock: Clock | None) -> kernel.Session:
    """A session in the transaction of an ``AsyncConnection`` or an ``AsyncSession``."""
    owned = target() if is_sqlalchemy(target, "async_scoped_session") else target
    is_session = is_sqlalchemy(owned, "AsyncSession")
    with translate_connection_errors():
        dialect = checked_dialect((owned.get_bind() if is_session else owned.sync_engine).dialect)

    async def find() -> tuple[kernel.Session, SqlalchemyAsyncOwner]:
        with translate_connection_errors():
            connection: AsyncConnection = await owned.connection() if is_session else owned
            pooled = await connection.get_raw_connection()
        reached = find_driver_connection(connection.dialect, pooled.driver_connection)
        owner = SqlalchemyAsyncOwner(owned, connection, reached)
        return driver_session(reached.driver, reached.adapter, names, clock, owner), owner

    return lazy_session(find, names, dialect)


def is_sqlalchemy(target: object, name: str) -> bool:
    """Whether the target is of a class of SQLAlchemy's; its ORM may not even be imported."""
    return f"sqlalchemy.{name}" in type_names(target)


def checked_dialect(dialect: Dialect) -> kernel.Dialect:
    """Which database it is; refuse a driver that duly has no adapter for."""
    known = DIALECTS.get(dialect.name)
    if known is None or dialect.driver not in DRIVERS:
        raise NotJoinable(
            f"SQLAlchemy's {dialect.name}+{dialect.driver} cannot be joined: "
            f"{INSTEAD.get(dialect.name, DATABASE)}"
        )
    return known


@dataclass(frozen=True, slots=True)
class DriverConnection:
    """The driver's own connection under SQLAlchemy's."""

    name: str
    connection: Any
    driver: Driver
    adapter: Any

    def begins_late(self) -> bool:
        """Whether nothing has begun yet: asyncpg's adapter waits for the first statement."""
        return self.name == "asyncpg" and not self.connection.is_in_transaction()

    async def refuse_autocommit(self) -> None:
        """Refuse a connection on which SQLAlchemy's commit and rollback mean nothing."""
        if self.driver.dialect == "sqlite":
            # With isolation_level=None on purpose, an event has emitted BEGIN by now.
            commits = not self.adapter.in_transaction() and await self.adapter.commits_by_itself()
        elif self.name == "asyncpg":
            commits = self.begins_late()
        else:
            commits = self.connection.autocommit
        if commits:
            raise NotJoinable(
                "this SQLAlchemy connection is at isolation level AUTOCOMMIT and would commit "
                "each statement by itself: use one at the default level"
            )


def find_driver_connection(dialect: Dialect, connection: Any) -> DriverConnection:
    """Recognise the driver's connection; a ``creator=`` may have made something else."""
    driver = find_driver(connection)
    if driver is None:
        raise NotJoinable(
            f"SQLAlchemy's {dialect.name}+{dialect.driver} holds a connection that is not the "
            f"driver's own: {INSTEAD[dialect.name]}"
        )
    return DriverConnection(dialect.driver, connection, driver, driver.adapter(connection))


class SqlalchemyOwner:
    """A transaction of SQLAlchemy's that duly has joined, and duly's savepoints in it."""

    def __init__(self, target: Any, connection: Any, reached: DriverConnection) -> None:
        self._target = target
        self._connection = connection
        self._driver_connection = reached
        self._savepoints: list[Any] = []

    @property
    def _is_session(self) -> bool:
        return self._target is not self._connection

    def _must_begin(self) -> bool:
        return not self._connection.in_transaction() or self._driver_connection.begins_late()

    def refuse_ended(self) -> None:
        """Raise where the code inside a savepoint has ended the transaction."""
        if not all(savepoint.is_active for savepoint in self._savepoints):
            raise ended_transaction_error()

    @contextmanager
    def _track_savepoint(self, savepoint: Any) -> Iterator[None]:
        """Watch a savepoint while the caller works in it."""
        self._savepoints.append(savepoint)
        try:
            yield
            self.refuse_ended()
        finally:
            self._savepoints.pop()


class SqlalchemySyncOwner(SqlalchemyOwner):
    """Owns the transaction of a ``Connection``, or of a ``Session`` and its connection."""

    async def begin(self) -> None:
        """Let SQLAlchemy begin; refuse AUTOCOMMIT."""
        if self._must_begin():
            with translate_connection_errors():
                self._connection.exec_driver_sql(PLAIN_STATEMENT).close()
        await self._driver_connection.refuse_autocommit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A savepoint that SQLAlchemy knows of: sessions flush before it and expire with it."""
        with ExitStack() as entered:
            with translate_sqlalchemy_errors():
                savepoint = entered.enter_context(self._target.begin_nested())
                if self._is_session:
                    self._target.connection()  # only now does a session say SAVEPOINT
            with self._track_savepoint(savepoint):
                yield


class SqlalchemyAsyncOwner(SqlalchemyOwner):
    """Owns the transaction of an ``AsyncConnection``, or of an ``AsyncSession``."""

    async def begin(self) -> None:
        """Let SQLAlchemy begin; refuse AUTOCOMMIT."""
        if self._must_begin():
            with translate_connection_errors():
                (await self._connection.exec_driver_sql(PLAIN_STATEMENT)).close()
        await self._driver_connection.refuse_autocommit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A savepoint that SQLAlchemy knows of: sessions flush before it and expire with it."""
        async with AsyncExitStack() as entered:
            with translate_sqlalchemy_errors():
                savepoint = await entered.enter_async_context(self._target.begin_nested())
                if self._is_session:
                    await self._target.connection()  # only now does a session say SAVEPOINT
            with self._track_savepoint(savepoint):
                yield


class RunSyncAdapter:
    """An async driver under SQLAlchemy's ``run_sync``, as Alembic's asynchronous template runs.

    There a sync call works because SQLAlchemy's greenlet waits in its place. This adapter asks for
    the same through ``run_async`` of SQLAlchemy's own adapter, so that the operation above never
    waits. Savepoints are the owner's.
    """

    def __init__(self, inner: Any, dbapi_connection: Any) -> None:
        self._inner = inner
        self._dbapi_connection = dbapi_connection

    def refuse_outside_greenlet(self) -> None:
        """Raise where no greenlet waits, before SQLAlchemy itself fails there."""
        self._await_in_greenlet(do_nothing())

    async def fetch(self, statement: Any, values: Any) -> Any:
        """Run one statement and return its rows by column name."""
        return self._await_in_greenlet(self._inner.fetch(statement, values))

    async def write(self, statement: Any, each: Any) -> int:
        """Run one statement for many sets of values; return the rows written."""
        written: int = self._await_in_greenlet(self._inner.write(statement, each))
        return written

    async def ask(self, statement: Any, values: Any) -> Any:
        """Run a statement of the user's."""
        return self._await_in_greenlet(self._inner.ask(statement, values))

    async def plain(self, text: str) -> None:
        """Run one statement without parameters."""
        self._await_in_greenlet(self._inner.plain(text))

    async def begin(self) -> None:
        """Make sure a transaction is open."""
        self._await_in_greenlet(self._inner.begin())

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._inner.in_transaction())

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return bool(self._await_in_greenlet(self._inner.commits_by_itself()))

    def _await_in_greenlet(self, step: Coroutine[Any, Any, Any]) -> Any:
        try:
            with translate_sqlalchemy_errors():
                return self._dbapi_connection.run_async(lambda _: step)
        finally:
            step.close()  # outside run_sync it was refused and never begun


async def do_nothing() -> None:
    """Something to wait for that is over at once."""
