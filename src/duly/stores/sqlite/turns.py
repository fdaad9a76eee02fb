"""Transactions that an event loop holds open while awaited code of the user's runs in them.

The one writing connection can be held by one of them at a time. Whoever waits for it waits in the
loop first, so that the thread is never busy with waiting while the holder has a statement to run.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Held
from duly._kernel.session import Opened
from duly.stores.sqlite.thread import Thread
from duly.stores.sqlite.wires import answered, autocommits, run, write_each
from duly.stores.sqlite.writer import begin, commit_handled, roll_back, unended
from duly.stores.surely import surely

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import timedelta

    from duly._kernel.session import Row, Rows, Session, Value
    from duly.stores.sqlite.writer import Writer


class ThreadWire:
    """The writing connection, used through a thread so that the loop never blocks on it."""

    def __init__(self, connection: sqlite3.Connection, thread: Thread) -> None:
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


def opened_on(writer: Writer, session: Session, connection: sqlite3.Connection) -> Opened:
    """A transaction on the writing connection, which can be taken away again."""
    return Opened(session, connection, revoke=partial(writer.revoke, connection))


class Turns:
    """The open transactions of one event loop, one after the other."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._thread = Thread()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def opened(self, wait: timedelta) -> AsyncIterator[Opened]:
        """One transaction: committed at the end of the block, rolled back on any error."""
        try:
            async with asyncio.timeout(wait.total_seconds()):
                await self._turn.acquire()
        except TimeoutError:
            raise Held("another handler keeps SQLite's writer busy: try again") from None
        try:
            connection = await self._borrowed(wait)
            try:
                await self._thread.run(lambda: begin(connection))
                wire = ThreadWire(connection, self._thread)
                with unended(connection):
                    yield opened_on(self._writer, self._writer.session_over(wire), connection)
                await self._thread.run(lambda: commit_handled(connection))
            except BaseException:
                await surely(self._thread.run(lambda: roll_back(connection)))
                raise
            finally:
                self._writer.give_back(connection)
        finally:
            self._turn.release()

    async def _borrowed(self, wait: timedelta) -> sqlite3.Connection:
        """The connection; one that arrives for a cancelled caller is given back."""
        got: list[sqlite3.Connection] = []
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
