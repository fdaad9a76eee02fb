"""The SQLite store, sync and async, and `memory:`, which is the same on a temporary file."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary, finalize

from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.core.session import OpenedTransaction
from duly.stores.shielding import shield_to_end
from duly.stores.sql.migrations import check_schema, schema_version
from duly.stores.sqlite.loop_transactions import LoopTransactions
from duly.stores.sqlite.thread import SqliteThread
from duly.stores.sqlite.user_transactions import (
    begin,
    commit_after_handler,
    guard_transaction,
    make_revocable,
    roll_back,
    transaction,
)
from duly.stores.sqlite.writer import OPENING, Writer
from duly.stores.store import Capabilities, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Operation
    from duly.stores.sql.migrations import SchemaVersion

T = TypeVar("T")


class SqliteSyncRunner:
    """Operations on the calling thread."""

    waits_for_keys = False

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,  # noqa: ARG002  # a file is not lost half-way
        within: float | None = None,
    ) -> T:
        """Run in one transaction, without awaiting."""
        with (
            self.writer.hold(bounded_wait(wait, within)) as connection,
            transaction(connection),
        ):
            return await operation(self.writer.session(connection))

    async def run_shielded(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction: nothing cancels a sync call."""
        return await self.run(operation, wait=wait)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run one batch in one transaction."""
        return await self.run(operation, wait=WAIT, within=within)

    @asynccontextmanager
    async def open_transaction(
        self,
        *,
        wait: timedelta,
        within: float | None = None,
        lasting: timedelta | None = None,  # noqa: ARG002  # the caller that bounds it revokes it
    ) -> AsyncIterator[OpenedTransaction]:
        """A transaction for a handler, which holds SQLite's only write lock."""
        connection = self.writer.acquire_connection(bounded_wait(wait, within))
        try:
            begin(connection)
            with (
                guard_transaction(connection) as guard,
                make_revocable(self.writer, connection, guard) as revocable,
            ):
                yield OpenedTransaction(
                    self.writer.session(connection), connection, revoke=revocable.revoke
                )
            commit_after_handler(connection)
        except BaseException:
            roll_back(connection)
            raise
        finally:
            self.writer.release_from_handler(connection)

    async def run_autocommit(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement; each takes the write lock and commits."""
        with self.writer.hold(wait) as connection:
            return await operation(self.writer.autocommit_session(connection))


def bounded_wait(wait: timedelta, within: float | None) -> timedelta:
    """How long to wait for the lock: as asked, or what the caller has left if that is less."""
    return wait if within is None else min(wait, timedelta(seconds=max(within, 0)))


class SqliteAsyncRunner:
    """The sync runner on duly's own thread, so that there is one implementation to trust."""

    waits_for_keys = False

    def __init__(self, sync_runner: SqliteSyncRunner) -> None:
        self._sync_runner = sync_runner
        self._thread = SqliteThread()
        self._loop_transactions: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTransactions] = (
            WeakKeyDictionary()
        )

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,  # noqa: ARG002  # a file is not lost half-way
        within: float | None = None,
    ) -> T:
        """Run in one transaction."""
        return await self._run_on_thread(
            self._sync_runner.run, operation, bounded_wait(wait, within)
        )

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run one batch in one transaction."""
        return await self._run_on_thread(
            self._sync_runner.run, operation, bounded_wait(WAIT, within)
        )

    def open_transaction(
        self,
        *,
        wait: timedelta,
        within: float | None = None,
        lasting: timedelta | None = None,  # noqa: ARG002  # the caller that bounds it revokes it
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction for a handler, its statements on a thread."""
        found = self._loop_transactions.setdefault(
            asyncio.get_running_loop(), LoopTransactions(self._sync_runner.writer)
        )
        return found.open_transaction(bounded_wait(wait, within))

    async def run_shielded(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction to its end, even if the caller is cancelled meanwhile."""
        return await shield_to_end(self.run(operation, wait=wait))

    async def run_autocommit(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement."""
        return await self._run_on_thread(self._sync_runner.run_autocommit, operation, wait)

    async def _run_on_thread(
        self, run: Callable[..., Coroutine[Any, Any, T]], operation: Operation[T], wait: timedelta
    ) -> T:
        """Run on the thread; the time spent in its queue is part of the wait."""
        queued_at = time.monotonic()

        def call() -> T:
            # Rounded, so that SQLite is not told of a new bound for each call.
            queued = timedelta(milliseconds=int(1000 * (time.monotonic() - queued_at)))
            return finish(run(operation, wait=max(wait - queued, timedelta(0))))

        return await self._thread.run(call)

    def close_loop(self) -> None:
        """End the thread of the running event loop's transactions."""
        found = self._loop_transactions.pop(asyncio.get_running_loop(), None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """End the threads once their queued calls are done."""
        self._thread.close()
        for found in list(self._loop_transactions.values()):
            found.close()


class SqliteStore(Store):
    """A database file on this machine, shared by any number of its processes."""

    def __init__(
        self, url: str, path: Path, names: Names, clock: Clock | None, *, durable: bool = True
    ) -> None:
        super().__init__(url, names, clock)
        self.capabilities = Capabilities(
            concurrent_writers=False, durable=durable, many_machines=False
        )
        self._path = path
        self._writer = Writer(path, names, clock, durable=durable)
        self.sync_runner: SqliteSyncRunner = SqliteSyncRunner(self._writer)
        self.async_runner: SqliteAsyncRunner = SqliteAsyncRunner(self.sync_runner)

    def open(self) -> Self:
        """Open the file, creating it and its tables where they are missing."""
        with self._writer.hold(OPENING):
            return self

    def close(self) -> None:
        """End duly's thread and close the file."""
        self.async_runner.close()
        self._writer.close()

    def migrate(self) -> list[str]:
        """Open the file, which applies what is missing; return the names."""
        return self._writer.migrate()

    def schema_version(self) -> SchemaVersion:
        """What the file's tables are at."""
        return self._writer.run_read_only(schema_version)

    def check(self) -> None:
        """Raise unless this duly can run on the file's tables as they are."""
        self._writer.run_read_only(check_schema)

    def apart(self) -> Store:
        """The same file through a connection of its own."""
        durable = self.capabilities.durable
        return SqliteStore(self.url, self._path, self.names, self.clock, durable=durable)

    async def aclose_loop(self) -> None:
        """End the thread of the running loop's transactions; the connection belongs to no loop."""
        self.async_runner.close_loop()

    async def aclose(self) -> None:
        """Close without holding up the event loop."""
        await asyncio.to_thread(self.close)


class MemoryStore(SqliteStore):
    """The same store on a temporary file without syncs: as safe, until the process ends."""

    def __init__(self, names: Names, clock: Clock | None) -> None:
        self._folder = TemporaryFolder()
        path = Path(self._folder.name) / "memory.db"
        super().__init__("memory:", path, names, clock, durable=False)

    def close(self) -> None:
        """Close the store and delete its file."""
        super().close()
        self._folder.cleanup()


class TemporaryFolder:
    """A folder that is removed by the process that made it, not by a forked child."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="duly-")
        self.cleanup = finalize(self, remove_folder, self.name, os.getpid())


def remove_folder(folder: str, owner: int) -> None:
    """Remove a folder, in the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
