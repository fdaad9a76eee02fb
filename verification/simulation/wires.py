"""The connection of a simulated process: each of its statements is a request to the world.

Alone a statement is a transaction by itself, and its reply may be lost.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from duly.core.clock import MICROSECOND
from duly.core.defaults import WAIT
from duly.stores.sqlite.adapters import execute_user_statement, fetch_rows, write_each
from verification.simulation.fences import FENCED, watched
from verification.simulation.requests import Request
from verification.simulation.stories import summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.core.session import Row, Rows, Value
    from verification.simulation.database import Transaction
    from verification.simulation.processes import Process

# Microseconds that a statement by itself waits for the write lock.
PATIENCE = WAIT // MICROSECOND


class LostReply(sqlite3.OperationalError):
    """What a driver raises when the outcome of a statement is unknown."""

    def __init__(self) -> None:
        super().__init__("disk I/O error")


class Wire:
    """One connection of a process: each statement waits for the schedule."""

    def __init__(self, process: Process, transaction: Transaction | None) -> None:
        self._process = process
        self._database = process.world.database
        self._transaction = transaction

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one of duly's statements."""
        name = self._database.name_of(text)
        rows: list[Row] = await self._ask(name, lambda: self._fetched(name, text, values))
        return rows

    def _fetched(self, name: str, text: str, values: Mapping[str, Value]) -> list[Row]:
        database, process = self._database, self._process
        stale = watched(database, name, values) if name in FENCED else None
        rows = fetch_rows(database.connection, text, values)
        if stale is not None:
            stale.judge(process, rows, self._transaction)
        if process.world.told is not None:
            process.world.tell(process, f"{name}: {summary(rows)}")
        return rows

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> int:
        """Run one of duly's statements for many sets of values."""
        name = self._database.name_of(text)
        written: int = await self._ask(name, lambda: self._written(name, text, each))
        return written

    def _written(self, name: str, text: str, each: Sequence[Mapping[str, Value]]) -> int:
        database, process = self._database, self._process
        stale = watched(database, name, each[0]) if name in FENCED else None
        written = write_each(database.connection, text, each)
        if stale is not None:
            stale.judge_count(process, written, self._transaction)
        process.world.tell(process, f"{name}: {written} written")
        return written

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of a handler's."""
        connection, process = self._database.connection, self._process

        def act() -> Rows:
            process.world.tell(process, f"its handler: {text.partition('(')[0].strip()}")
            return execute_user_statement(connection, text, values)

        rows: Rows = await self._ask("handler's SQL", act)
        return rows

    async def _ask(self, label: str, act: Callable[[], Any]) -> Any:
        """Have it done when the schedule says so; alone it is a transaction by itself."""
        process = self._process
        alone = self._transaction is None
        request = Request(process, label, lambda: self._do(label, act), lock=alone)
        request.until = process.world.now + PATIENCE
        return await request.answer()

    def _do(self, label: str, act: Callable[[], Any]) -> Any:
        transaction, nemesis = self._transaction, self._process.world.nemesis
        if transaction is not None and not transaction.open:
            raise sqlite3.ProgrammingError("this transaction was taken away")
        if nemesis.breaks_connection(label):
            if transaction is not None:
                self._database.roll_back(transaction)
            raise LostReply
        answer = act()
        if transaction is None and nemesis.loses_reply(label):
            raise LostReply
        return answer

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._transaction is not None and self._transaction.open

    async def commits_by_itself(self) -> bool:
        """Whether a statement would be committed at once."""
        return self._transaction is None
