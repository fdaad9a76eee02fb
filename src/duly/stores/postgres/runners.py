"""Operations on duly's own pooled connections, sync and async.

Both classes take a connection, run the operation, and on a lost connection or a serialization
failure run the whole of it again.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from duly.core.defaults import BATCH_WAIT
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.stores.fork_lock import ForkSafeLock
from duly.stores.postgres.deadlines import ANSWER, DeadlineAsyncConnection, DeadlineConnection
from duly.stores.postgres.loop_pool import POOL_WAIT, RECONNECT, LoopPool
from duly.stores.postgres.psycopg_adapters import PsycopgAdapter, PsycopgAsyncAdapter
from duly.stores.postgres.retry import may_run_again, raise_store_error, should_check_pool
from duly.stores.postgres.user_transactions import (
    bounded_transaction,
    bounded_transaction_async,
    cancel_statement,
    raise_store_or_commit_error,
    refuse_unsound,
    transaction_on,
)
from duly.stores.revocable_connection import RevocableConnection
from duly.stores.shielding import shield_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import timedelta

    from duly.core.session import OpenedTransaction, Operation
    from duly.stores.postgres.connect import PostgresTarget

T = TypeVar("T")
# Seconds at least, however late it is: a healthy server answers within that.
SHORTEST_WAIT = 0.1


def transaction_scope(connection: Any) -> Any:
    """The scope of an operation that is more than one statement."""
    return connection.transaction()


def bounded_wait(usual: float, within: float | None) -> float:
    """Seconds to wait: the usual time, or what the caller has left if that is less."""
    return usual if within is None else max(min(usual, within), SHORTEST_WAIT)


async def return_connection(
    pool: AsyncConnectionPool[DeadlineAsyncConnection],
    connection: DeadlineAsyncConnection,
    revocable: RevocableConnection,
) -> None:
    """Give a connection back; close a revoked one, since a cancellation may still reach it."""
    if revocable.revoked:
        await connection.close()
    await pool.putconn(connection)


class PostgresSyncRunner:
    """Operations on the calling thread."""

    waits_for_keys = True

    def __init__(self, target: PostgresTarget) -> None:
        self._target = target
        self._opening = ForkSafeLock()
        self._pool: ConnectionPool[DeadlineConnection] | None = None
        self._process = 0

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,
        within: float | None = None,
    ) -> T:
        """Run in one transaction, without awaiting."""
        return self._run_with_retry(
            operation, wait, transaction_scope, after_loss=after_loss, within=within
        )

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run one statement, which the connection commits, once."""
        return self._run_with_retry(
            operation, BATCH_WAIT, nullcontext, after_loss=False, within=within
        )

    async def run_shielded(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction: nothing cancels a sync call."""
        return await self.run(operation, wait=wait)

    async def run_autocommit(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement: the connection commits each."""
        return self._run_with_retry(operation, wait, nullcontext)

    @asynccontextmanager
    async def open_transaction(
        self, *, wait: timedelta, within: float | None = None, lasting: timedelta | None = None
    ) -> AsyncIterator[OpenedTransaction]:
        """A transaction for a handler, which is never run again here."""
        pool = self.pool()
        handler_done = False
        try:
            connection = pool.getconn(bounded_wait(POOL_WAIT, within))
            revocable = RevocableConnection(partial(cancel_statement, connection), exclusive=False)
            try:
                connection.answer_timeout = bounded_wait(ANSWER + wait.total_seconds(), within)
                with revocable, bounded_transaction(connection, lasting):
                    session = self._target.session(
                        PsycopgAdapter(connection), wait, runs_user_code=True
                    )
                    yield transaction_on(connection, session, lasting or wait, revocable)
                    handler_done = True
                    usual = ANSWER + (lasting or wait).total_seconds()
                    connection.answer_timeout = bounded_wait(usual, within)  # for the COMMIT
                    refuse_unsound(connection)
            except Exception as problem:
                if connection.closed:  # even if the handler swallowed that
                    raise psycopg.OperationalError("the connection was lost") from problem
                raise
            finally:
                if revocable.revoked:  # a cancellation may still reach the server
                    connection.close()
                pool.putconn(connection)
        except (psycopg.Error, UsageError) as problem:
            raise_store_or_commit_error(problem, handler_done=handler_done)
            raise

    def _run_with_retry(
        self,
        operation: Operation[T],
        wait: timedelta,
        scope: Callable[[DeadlineConnection], AbstractContextManager[object]],
        *,
        after_loss: bool = True,
        within: float | None = None,
    ) -> T:
        pool = self.pool()
        runs = 0
        while True:
            runs += 1
            try:
                connection = pool.getconn(bounded_wait(POOL_WAIT, within))
                try:
                    connection.answer_timeout = bounded_wait(ANSWER + wait.total_seconds(), within)
                    with scope(connection):
                        session = self._target.session(PsycopgAdapter(connection), wait)
                        return finish(operation(session))
                finally:  # not pool.connection(), which would commit what is committed already
                    pool.putconn(connection)
            except psycopg.Error as problem:
                if should_check_pool(problem):
                    pool.check()  # the other idle connections may have died with this one
                if not may_run_again(problem, runs, after_loss=after_loss):
                    raise_store_error(problem)

    def pool(self) -> ConnectionPool[DeadlineConnection]:
        """The pool, opened at the first use and again in a forked child."""
        if self._pool is not None and self._process == os.getpid():
            return self._pool
        with self._opening():
            if self._pool is None or self._process != os.getpid():
                self._pool, self._process = self._open(), os.getpid()
            return self._pool

    def _open(self) -> ConnectionPool[DeadlineConnection]:
        """Check the server first, so that the caller learns at once if it is away."""
        try:
            with DeadlineConnection.connect(**self._target.settings) as connection:
                adapter = PsycopgAdapter(connection)
                kwargs = finish(self._target.check_server(adapter, connection.info.backend_pid))
        except psycopg.Error as problem:
            raise_store_error(problem)
        pool: ConnectionPool[DeadlineConnection] = ConnectionPool(
            kwargs=kwargs,
            connection_class=DeadlineConnection,
            min_size=1,
            max_size=self._target.connections,
            timeout=POOL_WAIT,
            reconnect_timeout=RECONNECT,
            name="duly",
            open=True,
        )
        return pool

    def close(self) -> None:
        """Close the pool; the next use opens a new one."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.close()
        self._pool = None


class PostgresAsyncRunner:
    """Async operations, with a pool for each event loop: connections belong to their loop."""

    waits_for_keys = True

    def __init__(self, target: PostgresTarget) -> None:
        self._target = target
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,
        within: float | None = None,
    ) -> T:
        """Run in one transaction."""
        return await self._run_with_retry(
            operation, wait, transaction_scope, after_loss=after_loss, within=within
        )

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run one statement, which the connection commits, once."""
        return await self._run_with_retry(
            operation, BATCH_WAIT, nullcontext, after_loss=False, within=within
        )

    async def run_shielded(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction to its end, even if the caller is cancelled meanwhile."""
        return await shield_to_end(self.run(operation, wait=wait))

    async def run_autocommit(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement: the connection commits each."""
        return await self._run_with_retry(operation, wait, nullcontext)

    @asynccontextmanager
    async def open_transaction(
        self, *, wait: timedelta, within: float | None = None, lasting: timedelta | None = None
    ) -> AsyncIterator[OpenedTransaction]:
        """A transaction for a handler, which is never run again here."""
        pool = await self.pool()
        handler_done = False
        try:
            connection = await pool.getconn(bounded_wait(POOL_WAIT, within))
            revocable = RevocableConnection(partial(cancel_statement, connection), exclusive=False)
            try:
                connection.answer_timeout = bounded_wait(ANSWER + wait.total_seconds(), within)
                with revocable:
                    async with bounded_transaction_async(connection, lasting):
                        session = self._target.session(
                            PsycopgAsyncAdapter(connection), wait, runs_user_code=True
                        )
                        yield transaction_on(connection, session, lasting or wait, revocable)
                        handler_done = True
                        usual = ANSWER + (lasting or wait).total_seconds()
                        connection.answer_timeout = bounded_wait(usual, within)  # for the COMMIT
                        refuse_unsound(connection)
            except BaseException as problem:  # a second cancellation must not lose the connection
                lost = connection.closed and isinstance(problem, Exception)
                await shield_to_end(return_connection(pool, connection, revocable))
                if lost:
                    raise psycopg.OperationalError("the connection was lost") from problem
                raise
            await return_connection(pool, connection, revocable)
        except (psycopg.Error, UsageError) as problem:
            raise_store_or_commit_error(problem, handler_done=handler_done)
            raise

    async def _run_with_retry(
        self,
        operation: Operation[T],
        wait: timedelta,
        scope: Callable[[DeadlineAsyncConnection], AbstractAsyncContextManager[object]],
        *,
        after_loss: bool = True,
        within: float | None = None,
    ) -> T:
        pool = await self.pool()
        runs = 0
        while True:
            runs += 1
            try:
                connection = await pool.getconn(bounded_wait(POOL_WAIT, within))
                try:
                    connection.answer_timeout = bounded_wait(ANSWER + wait.total_seconds(), within)
                    async with scope(connection):
                        session = self._target.session(PsycopgAsyncAdapter(connection), wait)
                        result = await operation(session)
                except BaseException:  # a second cancellation must not lose the connection
                    await shield_to_end(pool.putconn(connection))
                    raise
                # Not pool.connection(), which would commit what is committed already.
                await pool.putconn(connection)
                return result
            except psycopg.Error as problem:
                if should_check_pool(problem):
                    await pool.check()  # the other idle connections may have died with this one
                if not may_run_again(problem, runs, after_loss=after_loss):
                    raise_store_error(problem)

    async def pool(self) -> AsyncConnectionPool[DeadlineAsyncConnection]:
        """The running loop's pool; its first callers share one opening."""
        loop = asyncio.get_running_loop()
        found = self._pools.get(loop)
        if found is None or found.has_failed():
            self._forget_closed_loops()
            found = self._pools[loop] = LoopPool(self._target)
        return found.opening.result() if found.opening.done() else await found.wait_until_open()

    def _forget_closed_loops(self) -> None:
        """Close the connections of loops that ended without ``aclose()``."""
        for loop in list(self._pools):  # a copy: another loop's thread may add its own
            if loop.is_closed() and (found := self._pools.pop(loop, None)) is not None:
                found.abandon()

    async def close(self) -> None:
        """Close the running loop's pool; the next use opens a new one."""
        self._forget_closed_loops()
        found = self._pools.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.close()
