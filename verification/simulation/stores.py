"""duly's store in a simulated process: the real session and statements, each step a request.

Transactions begin, end and are run again as the stores of duly do it. SQLite's way is to tell of
an error; PostgreSQL's is to run the operation again where that is allowed. A process has one of
the two, by the schedule.

Reads wait while a transaction is open. In SQLite's log they would see what was there before it
began, which is what they see here if they are picked before it: no order of steps is lost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from duly.core.clock import MICROSECOND, from_microseconds
from duly.core.defaults import WAIT
from duly.core.errors import LeaseLost, UsageError
from duly.core.session import OpenedTransaction, ended_transaction_error
from duly.jobs.invoke import Unfinished
from duly.stores.shielding import shield_to_end
from duly.stores.sql.migrations import SchemaVersion
from duly.stores.sqlite.errors import refused_error, unavailable_error
from duly.stores.sqlite.session import SqliteSession
from duly.stores.sqlite.store import bounded_wait
from duly.stores.store import Capabilities, Store
from verification.simulation.errors import Violation
from verification.simulation.requests import Request
from verification.simulation.wires import LostReply, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from datetime import datetime, timedelta

    from duly.core.clock import Clock
    from duly.core.session import Operation
    from verification.simulation.database import Transaction
    from verification.simulation.processes import Process

T = TypeVar("T")
# As on PostgreSQL.
RUNS = 3


class Connection:
    """What a handler gets as the driver's connection; these handlers use ``tx.execute``."""


class Runner:
    """Runs operations in transactions of duly's own; sync or async as the caller is."""

    waits_for_keys = False

    def __init__(self, process: Process, clock: Clock, *, again: bool) -> None:
        self._process = process
        self._database = process.world.database
        self._clock = clock
        # Whether an operation is run again after a lost reply, as on PostgreSQL.
        self._again = again

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,
        within: float | None = None,
    ) -> T:
        """Run in one transaction."""
        length = bounded_wait(wait, within)
        return await self._runs(lambda: self._transacted(operation, length), after_loss=after_loss)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run in one transaction, and never again."""
        return await self.run(operation, wait=WAIT, after_loss=False, within=within)

    async def run_shielded(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction to its end."""
        if self._process.on_thread:
            return await self.run(operation, wait=wait)
        return await shield_to_end(self.run(operation, wait=wait))

    async def run_autocommit(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement."""
        del wait
        return await self._runs(lambda: operation(self._session(None)))

    async def _runs(
        self, work: Callable[[], Coroutine[Any, Any, T]], *, after_loss: bool = True
    ) -> T:
        """Once, or again where a reply was lost; errors in duly's words, as its stores have it."""
        left = RUNS if self._again and after_loss else 1
        while True:
            left -= 1
            try:
                return await work()
            except LostReply as problem:
                if not left:
                    raise unavailable_error(problem) from problem
                self._process.world.seen["operations that were run again"] += 1
            except sqlite3.DatabaseError as problem:
                raise refused_error(problem) from problem

    async def _transacted(self, operation: Operation[T], wait: timedelta) -> T:
        transaction = await self._begun(wait)
        try:
            result = await operation(self._session(transaction))
            await self._commit(transaction)
        except BaseException:
            self._database.roll_back(transaction)
            raise
        return result

    @asynccontextmanager
    async def open_transaction(
        self,
        *,
        wait: timedelta,
        within: float | None = None,
        lasting: timedelta | None = None,
    ) -> AsyncIterator[OpenedTransaction]:
        """A transaction for code of the user's."""
        del lasting  # the worker revokes it
        transaction = await self._begun(bounded_wait(wait, within))
        try:
            session = self._session(transaction)
            yield OpenedTransaction(
                session, Connection(), revoke=lambda: self._database.roll_back(transaction)
            )
            await self._commit_handled(transaction)
        except LostReply as problem:
            if self._again:
                raise unavailable_error(problem) from problem
            raise
        except LeaseLost:
            self._process.world.seen["transactions of zombies rolled back"] += 1
            raise
        finally:
            self._database.roll_back(transaction)

    def _session(self, transaction: Transaction | None) -> SqliteSession:
        wire = Wire(self._process, transaction)
        return SqliteSession(
            wire, self._database.statements, self._clock, can_look_first=transaction is None
        )

    async def _begun(self, wait: timedelta) -> Transaction:
        process = self._process
        begin = Request(process, "BEGIN", lambda: self._database.begin(process), lock=True)
        begin.until = process.world.now + wait // MICROSECOND
        transaction: Transaction = await begin.answer()
        return transaction

    async def _commit_handled(self, transaction: Transaction) -> None:
        try:
            await self._commit(transaction)
        except (sqlite3.IntegrityError, UsageError) as problem:
            raise Unfinished from problem

    async def _commit(self, transaction: Transaction) -> None:
        nemesis = self._process.world.nemesis
        try:
            await Request(self._process, "COMMIT", lambda: self._committed(transaction)).answer()
        except asyncio.CancelledError:
            # What was on its way may arrive.
            if transaction.open and nemesis.coin():
                self._database.commit(transaction)
            raise

    def _committed(self, transaction: Transaction) -> None:
        nemesis = self._process.world.nemesis
        if not transaction.open:
            raise ended_transaction_error()
        if nemesis.breaks_connection("COMMIT"):
            self._database.roll_back(transaction)
            raise LostReply
        if transaction.doomed is not None:
            raise Violation("I8", f"{self._process} committed although {transaction.doomed}")
        self._database.commit(transaction)
        if nemesis.loses_reply("COMMIT"):
            raise LostReply


class SimulatedStore(Store):
    """The store of one simulated process."""

    def __init__(self, process: Process, *, again: bool) -> None:
        world = process.world

        def clock() -> datetime:
            return from_microseconds(world.wall)

        super().__init__("memory:", world.database.statements.names, clock)
        self.capabilities = Capabilities(
            concurrent_writers=False, durable=False, many_machines=False
        )
        self.sync_runner = self.async_runner = Runner(process, clock, again=again)

    def open(self) -> Self:
        """It is."""
        return self

    def close(self) -> None:
        """Nothing is held."""

    async def aclose_loop(self) -> None:
        """Nothing is held."""

    async def aclose(self) -> None:
        """Nothing is held."""

    def apart(self) -> Store:
        """The same store: connections do not limit anything here."""
        return self

    def migrate(self) -> list[str]:
        """Nothing is missing."""
        return []

    def schema_version(self) -> SchemaVersion:
        """Never asked for."""
        return SchemaVersion()

    def check(self) -> None:
        """Nothing is missing."""
