"""The SQLite store in both colours, and `memory:`, which is the same on a temporary file."""

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
from duly.core.session import Opened
from duly.stores.shielding import surely
from duly.stores.sql.migrations import check, schema_version
from duly.stores.sqlite.loop_transactions import Turns
from duly.stores.sqlite.thread import Thread
from duly.stores.sqlite.user_transactions import (
    begin,
    commit_handled,
    lent,
    roll_back,
    transaction,
    unended,
)
from duly.stores.sqlite.writer import OPENING, Writer
from duly.stores.store import Capabilities, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Operation
    from duly.stores.sqlite.connection import OwnConnection

T = TypeVar("T")


class BlockingRunner:
    """Operations on the calling thread."""

    waits_for_keys = False

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,  # noqa: ARG002  # a file is never lost half-way
        within: float | None = None,
    ) -> T:
        """Run in one transaction; returns without ever waiting."""

        def work(connection: OwnConnection) -> T:
            with transaction(connection):
                return finish(operation(self.writer.session(connection)))

        return self.writer.lend(work, bounded(wait, within))

    async def run_surely(self, operation: Operation[T], *, wait: timedelta) -> T:
        """The same: nothing cancels a blocking call."""
        return await self.run(operation, wait=wait)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """The same, for many events."""
        return await self.run(operation, wait=WAIT, within=within)

    @asynccontextmanager
    async def opened(
        self,
        *,
        wait: timedelta,
        within: float | None = None,
        lasting: timedelta | None = None,  # noqa: ARG002  # whoever bounds it revokes it
    ) -> AsyncIterator[Opened]:
        """A transaction for code of the user's, which holds SQLite's only write lock."""
        connection = self.writer.borrow(bounded(wait, within))
        try:
            begin(connection)
            with unended(connection) as guard, lent(self.writer, connection, guard) as loan:
                yield Opened(self.writer.session(connection), connection, revoke=loan.revoke)
            commit_handled(connection)
        except BaseException:
            roll_back(connection)
            raise
        finally:
            self.writer.end(connection)

    async def run_single(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement; each takes the write lock, commits and lets go."""
        return self.writer.lend(
            lambda connection: finish(operation(self.writer.session(connection))), wait
        )


def bounded(wait: timedelta, within: float | None) -> timedelta:
    """How long to wait for the lock: as asked, or what the caller has left if that is less."""
    return wait if within is None else min(wait, timedelta(seconds=max(within, 0)))


def nothing(_: OwnConnection) -> None:
    """Only have the file opened."""


class AwaitedRunner:
    """The same operations on duly's own thread, so that there is one implementation to trust."""

    waits_for_keys = False

    def __init__(self, blocking: BlockingRunner) -> None:
        self._blocking = blocking
        self._thread = Thread()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,  # noqa: ARG002  # a file is never lost half-way
        within: float | None = None,
    ) -> T:
        """Run in one transaction."""
        return await self._on_thread(self._blocking.run, operation, bounded(wait, within))

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """The same, for many events."""
        return await self._on_thread(self._blocking.run, operation, bounded(WAIT, within))

    def opened(
        self,
        *,
        wait: timedelta,
        within: float | None = None,
        lasting: timedelta | None = None,  # noqa: ARG002  # whoever bounds it revokes it
    ) -> AbstractAsyncContextManager[Opened]:
        """A transaction for code of the user's, its statements on a thread."""
        turns = self._turns.setdefault(asyncio.get_running_loop(), Turns(self._blocking.writer))
        return turns.opened(bounded(wait, within))

    async def run_surely(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction to its end, even if the caller is cancelled meanwhile."""
        return await surely(self.run(operation, wait=wait))

    async def run_single(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement."""
        return await self._on_thread(self._blocking.run_single, operation, wait)

    async def _on_thread(
        self, run: Callable[..., Coroutine[Any, Any, T]], operation: Operation[T], wait: timedelta
    ) -> T:
        """Run on the thread; the time spent in its queue is part of the wait."""
        asked = time.monotonic()

        def call() -> T:
            # Rounded, so that SQLite is not told of a new bound for each call.
            queued = timedelta(milliseconds=int(1000 * (time.monotonic() - asked)))
            return finish(run(operation, wait=max(wait - queued, timedelta(0))))

        return await self._thread.run(call)

    def close_loop(self) -> None:
        """End the thread of the running event loop's transactions."""
        turns = self._turns.pop(asyncio.get_running_loop(), None)
        if turns is not None:
            turns.close()

    def close(self) -> None:
        """End the thread once what it is doing is done."""
        self._thread.close()
        for turns in list(self._turns.values()):
            turns.close()


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
        self.blocking = BlockingRunner(self._writer)
        self.awaited = self._awaited = AwaitedRunner(self.blocking)

    def open(self) -> Self:
        """Open the file, creating it and its tables where they are missing."""
        self._writer.lend(nothing, OPENING)
        return self

    def close(self) -> None:
        """End duly's thread and close the file."""
        self._awaited.close()
        self._writer.close()

    def migrate(self) -> list[str]:
        """Apply what is missing, which opening does by itself."""
        return self._writer.migrate()

    def version(self) -> int:
        """The schema version of the file's tables; 0 where there are none yet."""
        return self._writer.look(schema_version)

    def check(self) -> None:
        """Raise unless the file holds the tables this duly was written for."""
        self._writer.look(check)

    def apart(self) -> Store:
        """The same file through a connection of its own."""
        durable = self.capabilities.durable
        return SqliteStore(self.url, self._path, self.names, self.clock, durable=durable)

    async def aclose_loop(self) -> None:
        """End the thread of the running loop's transactions; the connection belongs to no loop."""
        self._awaited.close_loop()

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
        """Close and forget everything."""
        super().close()
        self._folder.cleanup()


class TemporaryFolder:
    """A folder that goes with the process that made it, not with a forked child of that."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="duly-")
        self.cleanup = finalize(self, remove, self.name, os.getpid())


def remove(folder: str, owner: int) -> None:
    """Remove a folder, in the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
