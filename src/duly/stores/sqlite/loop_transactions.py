"""Transactions that an event loop holds open while awaited code of the user's runs in them.

The one writing connection can be held by one of them at a time. Whoever waits for it waits in the
loop first, so that the thread is never busy with waiting while the holder has a statement to run.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from duly.core.errors import InProgress
from duly.core.session import OpenedTransaction
from duly.stores.shielding import shield_to_end
from duly.stores.sqlite.adapters import autocommits, execute_user_statement, fetch_rows, write_each
from duly.stores.sqlite.thread import SqliteThread
from duly.stores.sqlite.user_transactions import (
    begin,
    commit_after_handler,
    guard_transaction,
    make_revocable,
    roll_back,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import timedelta

    from duly.core.session import Row, Rows, Value
    from duly.stores.sqlite.connection import WriterConnection
    from duly.stores.sqlite.writer import Writer


class ThreadedAdapter:
    """The writing connection, used through a thread so that the loop never blocks on it."""

    def __init__(self, connection: WriterConnection, thread: SqliteThread) -> None:
        self._connection = connection
        self._thread = thread

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement on the thread."""
        return await self._thread.run(lambda: fetch_rows(self._connection, text, values))

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> None:
        """Run one statement for many sets of values on the thread."""
        await self._thread.run(lambda: write_each(self._connection, text, each))

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's on the thread."""
        return await self._thread.run(
            lambda: execute_user_statement(self._connection, text, values)
        )

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return autocommits(self._connection)


class WriterTurn:
    """One place in the queue of an event loop; over once, whoever ends it."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._held = False

    async def acquire(self, wait: timedelta) -> None:
        """Wait for it."""
        try:
            async with asyncio.timeout(wait.total_seconds()):
                await self._lock.acquire()
        except TimeoutError:
            raise InProgress("another handler keeps SQLite's writer busy: try again") from None
        self._held = True

    def release(self) -> None:
        """Let the next one have it, unless this one was ended before."""
        if self._held:
            self._held = False
            self._lock.release()

    def release_threadsafe(self) -> None:
        """The same, from another thread."""
        try:
            self._loop.call_soon_threadsafe(self.release)
        except RuntimeError:  # the event loop is closed: nobody waits any more
            return


class LoopTransactions:
    """The open transactions of one event loop, one after the other."""

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
                wire = ThreadedAdapter(connection, self._thread)
                session = self._writer.session_with_adapter(wire)
                with (
                    guard_transaction(connection) as guard,
                    make_revocable(
                        self._writer, connection, guard, turn.release_threadsafe
                    ) as loan,
                ):
                    yield OpenedTransaction(session, connection, revoke=loan.revoke)
                await self._thread.run(lambda: commit_after_handler(connection))
            except BaseException:
                await shield_to_end(self._thread.run(lambda: roll_back(connection)))
                raise
            finally:
                self._writer.release_from_handler(connection)
        finally:
            turn.release()

    async def _acquire_connection(self, wait: timedelta) -> WriterConnection:
        """The connection; one that arrives for a cancelled caller is given back."""
        got: list[WriterConnection] = []
        try:
            await self._thread.run(lambda: got.append(self._writer.acquire_connection(wait)))
        except asyncio.CancelledError:
            if got:
                self._writer.release_connection(got[0])
            raise
        return got[0]

    def close(self) -> None:
        """End the thread."""
        self._thread.close()
