"""The connection pool of one event loop: connections belong to the loop that opened them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import psycopg
from psycopg_pool import AsyncConnectionPool

from duly.stores.postgres.deadlines import DeadlineAsyncConnection
from duly.stores.postgres.psycopg_adapters import PsycopgAsyncAdapter
from duly.stores.postgres.retry import raise_store_error

if TYPE_CHECKING:
    from duly.stores.postgres.connect import PostgresTarget

# Seconds for which a pool tries, with longer and longer waits, to reopen a lost connection. After
# that the next caller makes it try again, so that a server which is back is found at once.
RECONNECT = 2.0
# Seconds that a caller waits for a free connection before `StoreUnavailable`.
POOL_WAIT = 5.0


class CancellableQueue:
    """The queue of one pool worker: the worker gets nothing more once it has been cancelled."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        self._queue = queue

    async def get(self) -> Any:
        """The next task of the pool."""
        worker = asyncio.current_task()
        if worker is not None and worker.cancelling():
            raise asyncio.CancelledError
        return await self._queue.get()


class CancellablePool(AsyncConnectionPool[DeadlineAsyncConnection]):
    """A pool whose background tasks end when their loop does, even while they connect.

    psycopg_pool takes a cancellation for one more failure to connect: a worker that was cancelled
    while it opened a connection logs it and waits for its next task. ``asyncio.run`` cancels each
    task once and then waits for all of them, so it would never return.
    """

    @classmethod
    async def worker(cls, q: Any) -> None:
        """Run the pool's tasks until one of them is told to stop, or until cancelled."""
        await super().worker(CancellableQueue(q))  # type: ignore[arg-type]  # it only gets

    async def schedule_task(self, task: Any, delay: float) -> None:
        """Run a task of the pool later.

        By a timer of the loop. The pool's own scheduler waits with ``asyncio.wait_for``, which on
        Python 3.11 loses a cancellation that arrives together with a new task.
        """
        asyncio.get_running_loop().call_later(delay, self.run_task, task)


class LoopPool:
    """The pool of one event loop, from its opening to its end."""

    def __init__(self, target: PostgresTarget) -> None:
        self._target = target
        self._connections: WeakSet[DeadlineAsyncConnection] = WeakSet()
        self.opening = asyncio.get_running_loop().create_task(self._open())

    async def wait_until_open(self) -> AsyncConnectionPool[DeadlineAsyncConnection]:
        """The pool, once it is open; a caller that is cancelled does not stop the others."""
        return await asyncio.shield(self.opening)

    def has_failed(self) -> bool:
        """Whether the opening has ended without a pool."""
        opening = self.opening
        return opening.done() and (opening.cancelled() or opening.exception() is not None)

    async def _open(self) -> AsyncConnectionPool[DeadlineAsyncConnection]:
        """Check the server first, so that the caller learns at once if it is away."""
        connecting = DeadlineAsyncConnection.connect(**self._target.settings)
        try:
            async with await connecting as connection:
                adapter = PsycopgAsyncAdapter(connection)
                kwargs = await self._target.check_server(adapter, connection.info.backend_pid)
            pool = CancellablePool(
                kwargs=kwargs,
                connection_class=DeadlineAsyncConnection,
                configure=self._remember,
                min_size=1,
                max_size=self._target.connections,
                timeout=POOL_WAIT,
                reconnect_timeout=RECONNECT,
                name="duly",
                open=False,
            )
            # Not in the background: the caller learns at once if the server takes no second one.
            await pool.open(wait=True, timeout=POOL_WAIT)
        except psycopg.Error as problem:
            raise_store_error(problem)
        return pool

    async def _remember(self, connection: DeadlineAsyncConnection) -> None:
        self._connections.add(connection)

    async def close(self) -> None:
        """Close the pool."""
        await asyncio.wait([self.opening])
        if not self.has_failed():
            await self.opening.result().close()

    def abandon(self) -> None:
        """Close the connections of a loop that has ended, on which nothing can be awaited."""
        for connection in list(self._connections):
            connection.pgconn.finish()
