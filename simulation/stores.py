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

from duly._kernel.clock import MICROSECOND, from_microseconds
from duly._kernel.errors import Held, LeaseLost, Misuse
from duly._kernel.options import WAIT
from duly._kernel.session import Opened, ended
from duly.jobs.running import Unfinished
from duly.stores.base import Capabilities, Store
from duly.stores.sqlite.errors import refused, unavailable
from duly.stores.sqlite.session import SqliteSession
from duly.stores.sqlite.store import bounded
from duly.stores.sqlite.wires import answered, run, write_each
from duly.stores.surely import surely
from simulation.errors import Violation
from simulation.fences import watched
from simulation.requests import Request
from simulation.stories import summary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
    from datetime import timedelta

    from duly._kernel.session import Operation, Row, Rows, Value
    from simulation.database import Transaction
    from simulation.processes import Process

T = TypeVar("T")
# As on PostgreSQL.
RUNS = 3
# Microseconds between two looks at whether one who is stopped goes on.
STOPPED = 500_000


class LostReply(sqlite3.OperationalError):
    """What a driver says where nobody knows how a statement ended."""

    def __init__(self) -> None:
        super().__init__("disk I/O error")


class Wire:
    """One connection of a process: each statement waits for the schedule."""

    def __init__(self, process: Process, transaction: Transaction | None) -> None:
        self._process = process
        self._database = process.world.database
        self._transaction = transaction
        # The statement that comes next, by its name.
        self.label = ""

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one of duly's statements."""
        name, database = self.label, self._database
        connection, transaction = database.connection, self._transaction
        world = self._process.world

        def act() -> list[Row]:
            stale = watched(database, name, values)
            rows = run(connection, text, values)
            if stale:
                stale.judge(self._process, rows, transaction)
            if world.told is not None:
                world.tell(self._process, f"{name}: {summary(rows)}")
            return rows

        rows: list[Row] = await self._ask(name, act)
        return rows

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> None:
        """Run one of duly's statements for many sets of values."""
        name, connection, process = self.label, self._database.connection, self._process

        def act() -> None:
            write_each(connection, text, each)
            process.world.tell(process, f"{name}: {len(each)} written")

        await self._ask(name, act)

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of a handler's."""
        connection, process = self._database.connection, self._process

        def act() -> Rows:
            process.world.tell(process, f"its handler: {text.partition('(')[0].strip()}")
            return answered(connection, text, values)

        rows: Rows = await self._ask("handler's SQL", act)
        return rows

    async def _ask(self, label: str, act: Callable[[], Any]) -> Any:
        transaction, world = self._transaction, self._process.world
        if transaction is None:
            single = Single(self._process, label, act)
            return await waiting(Request(self._process, label, single, lock=True), WAIT)

        def inside() -> Any:
            if not transaction.open:
                raise sqlite3.ProgrammingError("this transaction was taken away")
            if world.nemesis.breaks_connection(label):
                world.database.roll_back(transaction)
                raise LostReply
            return act()

        return await Request(self._process, label, inside).answer()

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._transaction is not None and self._transaction.open

    async def commits_by_itself(self) -> bool:
        """Whether a statement would be committed at once."""
        return self._transaction is None


class Single:
    """A statement that is a transaction by itself; its reply may be lost."""

    def __init__(self, process: Process, label: str, act: Callable[[], Any]) -> None:
        self._process = process
        self._label = label
        self._act = act

    def __call__(self) -> Any:
        """Do it."""
        nemesis = self._process.world.nemesis
        if nemesis.breaks_connection(self._label):
            raise LostReply
        answer = self._act()
        if nemesis.loses_reply(self._label):
            raise LostReply
        return answer


async def waiting(request: Request, wait: timedelta) -> Any:
    """Wait for a request that needs the write lock, and not longer than allowed."""
    world = request.process.world
    world.at(world.now + wait // MICROSECOND, Patience(request))
    return await request.answer()


class Patience:
    """The end of a wait for the write lock."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def due(self) -> None:
        """Tell whoever still waits that somebody else keeps the database busy."""
        request = self._request
        world = request.process.world
        if request.process.stalled:  # whoever is stopped looks at the lock first, not at the clock
            world.at(world.now + STOPPED, self)
        elif request.waits and request.process.alive:
            world.withdraw(request)
            world.seen["waits for the lock that ended"] += 1
            request.tell(None, Held("another connection holds SQLite's only write lock"))


class NamedSession(SqliteSession):
    """duly's own session on SQLite; it says by name what it asks for."""

    def __init__(self, process: Process, transaction: Transaction | None) -> None:
        world = process.world
        self._named = Wire(process, transaction)
        super().__init__(
            self._named, world.database.statements, lambda: from_microseconds(world.wall)
        )

    async def rows(self, statement: str, **values: Value) -> Sequence[Row]:
        """Run one named statement."""
        self._named.label = statement
        return await super().rows(statement, **values)

    async def write_each(self, statement: str, each: Sequence[dict[str, Value]]) -> None:
        """Run one named statement for many sets of values."""
        self._named.label = statement
        await super().write_each(statement, each)


class Connection:
    """What a handler gets as the driver's connection; these handlers use ``tx.execute``."""


class Runner:
    """Runs operations in transactions of duly's own; in the colour of whoever calls."""

    waits_for_keys = False

    def __init__(self, process: Process, *, again: bool) -> None:
        self._process = process
        self._database = process.world.database
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
        length = bounded(wait, within)
        return await self._runs(lambda: self._transacted(operation, length), after_loss=after_loss)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run in one transaction, and never again."""
        return await self.run(operation, wait=WAIT, after_loss=False, within=within)

    async def run_surely(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction to its end."""
        if self._process.on_thread:
            return await self.run(operation, wait=wait)
        return await surely(self.run(operation, wait=wait))

    async def run_single(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run statement by statement."""
        del wait
        return await self._runs(lambda: operation(NamedSession(self._process, None)))

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
                    raise unavailable(problem) from problem
                self._process.world.seen["operations that were run again"] += 1
            except sqlite3.DatabaseError as problem:
                raise refused(problem) from problem

    async def _transacted(self, operation: Operation[T], wait: timedelta) -> T:
        transaction = await self._begun(wait)
        try:
            result = await operation(NamedSession(self._process, transaction))
            await self._commit(transaction)
        except BaseException:
            self._database.roll_back(transaction)
            raise
        return result

    @asynccontextmanager
    async def opened(
        self,
        *,
        wait: timedelta,
        within: float | None = None,
        lasting: timedelta | None = None,
    ) -> AsyncIterator[Opened]:
        """A transaction for code of the user's."""
        del lasting  # whoever bounds it revokes it
        transaction = await self._begun(bounded(wait, within))
        try:
            session = NamedSession(self._process, transaction)
            yield Opened(
                session, Connection(), revoke=lambda: self._database.roll_back(transaction)
            )
            await self._commit_handled(transaction)
        except LostReply as problem:
            if self._again:
                raise unavailable(problem) from problem
            raise
        except LeaseLost:
            self._process.world.seen["transactions of zombies rolled back"] += 1
            raise
        finally:
            self._database.roll_back(transaction)

    async def _begun(self, wait: timedelta) -> Transaction:
        process = self._process
        begin = Request(process, "BEGIN", lambda: self._database.begin(process), lock=True)
        transaction: Transaction = await waiting(begin, wait)
        return transaction

    async def _commit_handled(self, transaction: Transaction) -> None:
        try:
            await self._commit(transaction)
        except (sqlite3.IntegrityError, Misuse) as problem:
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
            raise ended()
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
        super().__init__(
            "memory:", world.database.statements.names, lambda: from_microseconds(world.wall)
        )
        self.capabilities = Capabilities(
            concurrent_writers=False, durable=False, many_machines=False
        )
        self.blocking = self.awaited = Runner(process, again=again)

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
        """Connections are no matter here: a request waits for the lock and for nobody else."""
        return self

    def migrate(self) -> list[str]:
        """Nothing is missing."""
        return []

    def version(self) -> int:
        """Nobody asks."""
        return 0

    def check(self) -> None:
        """Nothing is missing."""
