"""A session on SQLite, over one of the adapters of `sqlite.adapters`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, cast

from duly.core.errors import NotJoinable
from duly.core.session import (
    Column,
    Dialect,
    Owner,
    Row,
    Rows,
    Value,
    WorkKind,
    ended_transaction_error,
    host_time,
)
from duly.stores.sqlite.errors import raise_known

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from types import TracebackType

    from duly.core.clock import Clock
    from duly.stores.sql.statements import Statements

# No two that are open share a name: one that was opened for a cancelled caller must not catch
# another's rollback. So a name is used again only after its RELEASE; the driver then finds both of
# its statements prepared, which are otherwise half of what a savepoint costs.
SAVEPOINTS = count(1)
RELEASED: list[str] = []
# SQLite keeps busy_timeout in 32 bits: 24 days.
LONGEST = 2**31 - 1
NO_DIGEST = bytes(32)
NO_VALUES: dict[str, Value] = {}


class SqliteAdapter(Protocol):
    """One SQLite connection: runs text, and says what state it is in."""

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement and return its rows by column name."""

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> int:
        """Run one statement without RETURNING for many sets of values; return the rows written."""

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's and return what it found."""

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""


class SqliteSession:
    """Runs named statements on one connection. Never commits, rolls back or closes it."""

    can_batch = can_move_rows = False

    def __init__(
        self,
        adapter: SqliteAdapter,
        statements: Statements,
        clock: Clock | None,
        owner: Owner | None = None,
        *,
        can_look_first: bool = False,
    ) -> None:
        self._adapter = adapter
        self._statements = statements
        self._clock = clock
        self._owner = owner
        self._savepoints = 0
        self.can_look_first = can_look_first
        self.names = statements.names
        self.dialect: Dialect = statements.dialect
        self.new_work: set[WorkKind] = set()

    async def begin(self, wait: timedelta | None) -> None:
        """Begin before anything else: an outermost savepoint would commit at its end."""
        if self._owner is not None:
            await self._owner.begin()
        if self._adapter.in_transaction():
            return
        if await self._adapter.commits_by_itself():
            raise NotJoinable(
                "this SQLite connection is in autocommit mode and no transaction is open: "
                'run execute("BEGIN IMMEDIATE") on it first'
            )
        async with self.limit_lock_waits(wait):
            await self._execute_plain("BEGIN IMMEDIATE")

    async def rows(self, statement: str, **values: Value | Column) -> Sequence[Row]:
        """Run one named statement."""
        values["now"] = host_time(self._clock)
        if self._savepoints:
            self._refuse_ended()
        try:
            return await self._adapter.fetch(
                self._statements[statement].text,
                cast("Mapping[str, Value]", values),  # columns are not for SQLite
            )
        except sqlite3.OperationalError as problem:
            raise_known(problem)
            raise

    async def rows_each(
        self, statement: str, each: Sequence[Mapping[str, Value]], **shared: Value
    ) -> Sequence[Row]:
        """Run the statement's ``_many`` form: one statement costs less than many small ones."""
        return await self.rows(f"{statement}_many", **shared, **pack_values(each)) if each else []

    async def write(self, statement: str, **values: Value) -> int:
        """Run one named statement without its RETURNING, which is a third of what it costs."""
        values["now"] = host_time(self._clock)
        return await self._write(statement, (values,))

    async def write_each(self, statement: str, each: Sequence[dict[str, Value]]) -> int:
        """Run the statement for one set of values after the other, in one call of the driver."""
        if not each:
            return 0
        now = host_time(self._clock)
        for one in each:
            one["now"] = now
        return await self._write(statement, each)

    async def _write(self, statement: str, each: Sequence[Mapping[str, Value]]) -> int:
        if self._savepoints:
            self._refuse_ended()
        try:
            return await self._adapter.write(self._statements.without_rows(statement), each)
        except sqlite3.OperationalError as problem:
            raise_known(problem)
            raise

    async def execute(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's; SQLite takes ``:name`` as it is."""
        self._refuse_ended()
        return await self._adapter.ask(text, values)

    async def execute_raw(self, text: str) -> None:
        """Run one statement of a migration."""
        await self._execute_plain(text)

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A savepoint, through the owner if there is one."""
        return PlainSavepoint(self) if self._owner is None else self._owner.savepoint()

    async def open_savepoint(self) -> str:
        """Open a savepoint in plain SQL, for which the driver has no call, and return its name."""
        try:
            name = RELEASED.pop()
        except IndexError:
            name = f"duly_{next(SAVEPOINTS)}"
        await self._execute_plain(f"SAVEPOINT {name}")
        self._savepoints += 1
        return name

    async def end_savepoint(self, name: str, *, failed: bool) -> None:
        """Release a savepoint; roll back to it first if its block has failed."""
        try:
            if not failed:
                self._refuse_ended()
        finally:
            self._savepoints -= 1
        if failed:
            if not self._adapter.in_transaction():
                return  # a full disk has rolled back everything already
            await self._execute_plain(f"ROLLBACK TO {name}")
        await self._execute_plain(f"RELEASE {name}")
        RELEASED.append(name)

    def _refuse_ended(self) -> None:
        """A statement after the user's own COMMIT would stand in a transaction of its own."""
        if self._savepoints and not self._adapter.in_transaction():
            raise ended_transaction_error()

    def limit_lock_waits(self, wait: timedelta | None) -> AbstractAsyncContextManager[None]:
        """Bound the wait for the write lock, then restore the connection's own bound."""
        return nullcontext() if wait is None else self._bound_lock_waits(wait)

    @asynccontextmanager
    async def _bound_lock_waits(self, wait: timedelta) -> AsyncIterator[None]:
        [before] = await self._execute_plain("PRAGMA busy_timeout")
        await self._execute_plain(f"PRAGMA busy_timeout = {milliseconds(wait)}")
        try:
            yield
        finally:
            await self._execute_plain(f"PRAGMA busy_timeout = {before['timeout']}")

    async def _execute_plain(self, text: str) -> list[Row]:
        try:
            return await self._adapter.fetch(text, NO_VALUES)
        except sqlite3.OperationalError as problem:
            raise_known(problem)
            raise


class PlainSavepoint(AbstractAsyncContextManager[None]):
    """A savepoint in plain SQL. Not a generator, which would cost more than its statements."""

    def __init__(self, session: SqliteSession) -> None:
        self._session = session
        self._name = ""

    async def __aenter__(self) -> None:
        self._name = await self._session.open_savepoint()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.end_savepoint(self._name, failed=kind is not None)


def pack_values(each: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Many sets of values in the few parameters of one statement: SQLite has no arrays.

    Texts go as JSON, in ``each``: an array of arrays, in the order of the columns. Digests are all
    of one length, so a column of them goes end to end, with as many zeros for none.
    """
    values: dict[str, Value] = {}
    texts: list[list[Value]] = []
    for name in each[0]:
        column = [one[name] for one in each]
        if isinstance(column[0], str):
            texts.append(column)
        else:
            values[name] = b"".join(
                [cell if isinstance(cell, bytes) else NO_DIGEST for cell in column]
            )
    values["each"] = json.dumps(list(zip(*texts, strict=True)))
    return values


def milliseconds(wait: timedelta) -> int:
    """Whole milliseconds, rounded up, so that a short wait is not none."""
    return min(-(-wait // timedelta(milliseconds=1)), LONGEST)
