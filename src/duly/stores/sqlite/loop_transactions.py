"""Transactions that an event loop holds open while an async handler runs in them.

Only one of them has the writing connection at a time. The others wait for it in the event loop, so
that the thread is never busy with waiting while the holder has a statement to run.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from duly.core.errors import InProgress
from duly.core.session import OpenedTransaction
from duly.stores.shielding import shield_to_end
from duly.stores.sqlite.adapters import WriterAdapter
from duly.stores.sqlite.thread import SqliteThread
from duly.stores.sqlite.user_transactions import (
    begin,
    commit_after_handler,
    guard_transaction,
    make_revocable,
    roll_back,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from duly.stores.sqlite.connection import WriterConnection
    from duly.stores.sqlite.writer import Writer


class WriterTurn:
    """One handler's turn with the writer; it ends once, by its return or by revocation."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._held = False

    async def acquire(self, wait: timedelta) -> None:
        """Wait for the turn; raise `InProgress` once the wait is over."""
        try:
            async with asyncio.timeout(wait.total_seconds()):
                await self._lock.acquire()
        except TimeoutError:
            raise InProgress("another handler keeps SQLite's writer busy: try again") from None
        self._held = True

    def release(self) -> None:
        """Let the next handler have the writer, unless this turn has ended before."""
        if self._held:
            self._held = False
            self._lock.release()

    def release_threadsafe(self) -> None:
        """The same, from another thread."""
        try:
            self._loop.call_soon_threadsafe(self.release)
        except RuntimeError:  # the event loop is closed: no handler waits in it
            return


class LoopTransactions:
    """The handlers' transactions of one event loop, one after the other."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._thread = SqliteThread()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open_transaction(self, wait: timedelta) -> AsyncIterator[OpenedTransaction]:
        """One transaction: committed at the end of the block, rolled back on any error."""
        turn = WriterTurn(self._lock)
        await turn.acquire(wait)
        try:
            connection = await self._acquire_connection(wait)
            try:
                await self._thread.run(lambda: begin(connection))
                adapter = WriterAdapter(connection, self._thread)
                session = self._writer.session_with_adapter(adapter)
                with (
                    guard_transaction(connection) as guard,
                    make_revocable(
                        self._writer, connection, guard, turn.release_threadsafe
                    ) as revocable,
                ):
                    yield OpenedTransaction(session, connection, revoke=revocable.revoke)
                await self._thread.run(lambda: commit_after_handler(connection))
            except BaseException:
                await shield_to_end(self._thread.run(lambda: roll_back(connection)))
                raise
            finally:
                self._writer.release_from_handler(connection)
        finally:
            turn.release()

    async def _acquire_connection(self, wait: timedelta) -> WriterConnection:
        """The connection; given back at once if the caller was cancelled meanwhile."""
        acquired: list[WriterConnection] = []
        try:
            await self._thread.run(lambda: acquired.append(self._writer.acquire_connection(wait)))
        except asyncio.CancelledError:
            if acquired:
                self._writer.release_connection(acquired[0])
            raise
        return acquired[0]

    def close(self) -> None:
        """End the thread."""
        self._thread.close()
