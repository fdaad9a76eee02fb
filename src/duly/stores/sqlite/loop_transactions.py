"""Transactions that an event loop holds open while awaited code of the user's runs in them.

The one writing connection can be held by one of them at a time. Whoever waits for it waits in the
loop first, so that the thread is never busy with waiting while the holder has a statement to run.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from duly.core.errors import Held
from duly.core.session import Opened
from duly.stores.shielding import surely
from duly.stores.sqlite.adapters import answered, autocommits, run, write_each
from duly.stores.sqlite.thread import Thread
from duly.stores.sqlite.user_transactions import begin, commit_handled, lent, roll_back, unended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import timedelta

    from duly.core.session import Row, Rows, Value
    from duly.stores.sqlite.connection import OwnConnection
    from duly.stores.sqlite.writer import Writer


class ThreadWire:
    """The writing connection, used through a thread so that the loop never blocks on it."""

    def __init__(self, connection: OwnConnection, thread: Thread) -> None:
        self._connection = connection
        self._thread = thread

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement on the thread."""
        return await self._thread.run(lambda: run(self._connection, text, values))

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> None:
        """Run one statement for many sets of values on the thread."""
        await self._thread.run(lambda: write_each(self._connection, text, each))

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's on the thread."""
        return await self._thread.run(lambda: answered(self._connection, text, values))

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return autocommits(self._connection)


class Turn:
    """One place in the queue of an event loop; over once, whoever ends it."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._taken = False

    async def take(self, wait: timedelta) -> None:
        """Wait for it."""
        try:
            async with asyncio.timeout(wait.total_seconds()):
                await self._lock.acquire()
        except TimeoutError:
            raise Held("another handler keeps SQLite's writer busy: try again") from None
        self._taken = True

    def end(self) -> None:
        """Let the next one have it, unless this one was ended before."""
        if self._taken:
            self._taken = False
            self._lock.release()

    def end_from_outside(self) -> None:
        """The same, from another thread."""
        try:
            self._loop.call_soon_threadsafe(self.end)
        except RuntimeError:  # the event loop is closed: nobody waits any more
            return


class Turns:
    """The open transactions of one event loop, one after the other."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._thread = Thread()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def opened(self, wait: timedelta) -> AsyncIterator[Opened]:
        """One transaction: committed at the end of the block, rolled back on any error."""
        turn = Turn(self._turn)
        await turn.take(wait)
        try:
            connection = await self._borrowed(wait)
            try:
                await self._thread.run(lambda: begin(connection))
                wire = ThreadWire(connection, self._thread)
                session = self._writer.session_over(wire)
                with (
                    unended(connection) as guard,
                    lent(self._writer, connection, guard, turn.end_from_outside) as loan,
                ):
                    yield Opened(session, connection, revoke=loan.revoke)
                await self._thread.run(lambda: commit_handled(connection))
            except BaseException:
                await surely(self._thread.run(lambda: roll_back(connection)))
                raise
            finally:
                self._writer.end(connection)
        finally:
            turn.end()

    async def _borrowed(self, wait: timedelta) -> OwnConnection:
        """The connection; one that arrives for a cancelled caller is given back."""
        got: list[OwnConnection] = []
        try:
            await self._thread.run(lambda: got.append(self._writer.borrow(wait)))
        except asyncio.CancelledError:
            if got:
                self._writer.give_back(got[0])
            raise
        return got[0]

    def close(self) -> None:
        """End the thread."""
        self._thread.close()
