"""The SQLite store in both colours, and `memory:`, which is the same on a temporary file."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from weakref import finalize

from duly._kernel.onestep import finish
from duly.stores.base import Capabilities, Store
from duly.stores.sql.migrations import check, schema_version
from duly.stores.sqlite.writer import OPENING, Writer, transaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from duly._kernel.clock import Clock
    from duly._kernel.options import Names
    from duly._kernel.session import Operation

T = TypeVar("T")


class BlockingRunner:
    """Operations on the calling thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def run(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction; returns without ever waiting."""
        with self._writer.turn(wait) as connection, transaction(connection):
            return finish(operation(self._writer.session(connection)))

    async def run_single(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement; each takes the write lock, commits and lets go."""
        with self._writer.turn(wait) as connection:
            return finish(operation(self._writer.session(connection)))


class AwaitedRunner:
    """The same operations on duly's own thread, so that there is one implementation to trust.

    A caller that is cancelled meanwhile still waits for the statement that is already running:
    only then is it certain what there is to undo.
    """

    def __init__(self, blocking: BlockingRunner) -> None:
        self._blocking = blocking
        self._thread: ThreadPoolExecutor | None = None
        self._process = 0

    async def run(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction."""
        return await self._on_thread(lambda: finish(self._blocking.run(operation, wait=wait)))

    async def run_single(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement."""
        return await self._on_thread(
            lambda: finish(self._blocking.run_single(operation, wait=wait))
        )

    async def _on_thread(self, call: Callable[[], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._own_thread(), call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    def _own_thread(self) -> ThreadPoolExecutor:
        if self._thread is None or self._process != os.getpid():  # threads survive no fork
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="duly-sqlite")
            self._process = os.getpid()
        return self._thread

    def close(self) -> None:
        """End the thread once what it is doing is done."""
        if self._thread is not None and self._process == os.getpid():
            self._thread.shutdown()
        self._thread = None


class SqliteStore(Store):
    """A database file on this machine, shared by any number of its processes."""

    def __init__(
        self, url: str, path: Path, names: Names, clock: Clock | None, *, durable: bool = True
    ) -> None:
        super().__init__(url, names, clock)
        self.capabilities = Capabilities(
            concurrent_writers=False, durable=durable, many_machines=False
        )
        self._writer = Writer(path, names, clock, durable=durable)
        self.blocking = BlockingRunner(self._writer)
        self.awaited = self._awaited = AwaitedRunner(self.blocking)

    def open(self) -> Self:
        """Open the file, creating it and its tables where they are missing."""
        with self._writer.turn(OPENING):
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
