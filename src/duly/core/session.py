"""Sessions: the interface between operations and databases, over one open transaction.

Operations of duly are ``async def`` over this protocol and know nothing else of a database. Behind
it is duly's own connection or the user's, sync or async.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from duly.core.clock import Clock, to_microseconds
from duly.core.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from duly.core.defaults import Names

Dialect = Literal["postgres", "sqlite"]
# What services do: workers run jobs, relays send messages.
WorkKind = Literal["jobs", "messages"]
Value = int | str | bytes | bool | None
# One value for each row, as an array. For sessions that can batch.
Column = Sequence[Value]
Row = Mapping[str, Any]
T = TypeVar("T")


class Rows(list[Row]):
    """What a statement of the user's found; ``rowcount`` is how many rows it touched."""

    def __init__(self, found: Sequence[Row], rowcount: int) -> None:
        super().__init__(found)
        self.rowcount = rowcount


class Session(Protocol):
    """One open transaction. Statements are named; columns are read by name.

    ``rows`` supplies ``:now`` and ``:wait`` itself, so that no operation carries time around.
    """

    @property
    def names(self) -> Names:
        """Where duly's tables are."""

    @property
    def dialect(self) -> Dialect:
        """Which database this is. Only stores ask; an operation asks what the session can."""

    @property
    def can_batch(self) -> bool:
        """Whether a batch is one statement, each column an array; else it goes row by row."""

    @property
    def can_move_rows(self) -> bool:
        """Whether one statement can delete a row here and write it elsewhere."""

    @property
    def can_look_first(self) -> bool:
        """Whether a look before a write is cheap and binds nothing.

        It costs no round trip and takes no lock, and no later statement is held to what it saw.
        """

    @property
    def new_work(self) -> set[WorkKind]:
        """What was written here for services to do, once this transaction is committed."""

    async def begin(self, wait: timedelta | None) -> None:
        """Make sure that a transaction is open; ``wait`` bounds the wait for its lock."""

    async def rows(self, statement: str, **values: Value | Column) -> Sequence[Row]:
        """Run one named statement and return its rows."""

    async def rows_each(
        self, statement: str, each: Sequence[Mapping[str, Value]], **shared: Value
    ) -> Sequence[Row]:
        """Run one named statement for many sets of values, in their order, and gather the rows."""

    async def write(self, statement: str, **values: Value) -> int:
        """Run one named statement and return how many rows it wrote."""

    async def write_each(self, statement: str, each: Sequence[dict[str, Value]]) -> int:
        """Run one named statement for many sets of values; return how many rows it wrote.

        On SQLite each set is given the time of the write, as ``now``.
        """

    async def execute(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's, with ``:name`` parameters, and return what it found."""

    async def execute_raw(self, text: str) -> None:
        """Run one statement of a migration as it is written."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """Everything inside stays or goes together, and the transaction lives on either way."""

    def limit_lock_waits(self, wait: timedelta | None) -> AbstractAsyncContextManager[None]:
        """Bound lock waits inside, then restore the setting. Must stand inside a savepoint."""


class Owner(Protocol):
    """Who began the transaction, and through whose calls savepoints must be opened.

    A framework that keeps its own books (SQLAlchemy, Django) has to see the transaction begin and
    the savepoint open, or it would commit, roll back or expire the wrong things.
    """

    async def begin(self) -> None:
        """Let the owner begin its transaction, or refuse where it would commit by itself."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A savepoint opened through the owner."""


Operation = Callable[[Session], Coroutine[Any, Any, T]]


class Revocation(Protocol):
    """Tells whether a transaction was taken from the code that runs in it."""

    @property
    def revoked(self) -> bool:
        """Whether it was."""


class OpenedTransaction(NamedTuple):
    """A transaction of duly's own in which the user's code runs."""

    session: Session
    # What the code may use: the driver's connection, and the ORM's session where there is one.
    connection: Any
    orm: Any = None
    # Called before that code runs: from then on a statement may take its usual time again.
    restore_timeouts: Callable[[], None] = lambda: None
    # Called from another thread: takes the connection from code that does not let go.
    revoke: Callable[[], None] = lambda: None
    # Looked at before each of that code's statements, where a revoked connection stays open.
    revocation: Revocation | None = None


class Runner(Protocol):
    """A store, sync or async: runs an operation in a transaction of duly's own.

    An operation may be run again after a lost connection or a serialization failure; it must be
    written so that a second run recognises what the first one committed.
    """

    @property
    def waits_for_keys(self) -> bool:
        """Whether `InProgress` is about one key, not about the whole database."""

    async def run(
        self,
        operation: Operation[T],
        *,
        wait: timedelta,
        after_loss: bool = True,
        within: float | None = None,
    ) -> T:
        """Run in one transaction and commit it.

        ``after_loss`` is whether it may run again when it is unknown if the first run committed,
        ``within`` how many seconds the caller has left.
        """

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Run in one transaction, and never again after a lost connection.

        On PostgreSQL the operation is one statement, which is a transaction by itself, and waits
        only a moment for a key that one of many needs.
        """

    def open_transaction(
        self, *, wait: timedelta, within: float | None = None, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction for code of the user's to run in: committed at the end of the block.

        ``lasting`` bounds how long that code may take.
        """

    async def run_shielded(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run in one transaction to its end, even if the caller is cancelled meanwhile, again."""

    async def run_autocommit(self, operation: Operation[T], *, wait: timedelta) -> T:
        """Run with each statement a transaction of its own; for operations that allow it."""


def database_time(clock: Clock | None) -> int | None:
    """What ``:now`` is where the database has a clock of its own: NULL unless a test cranks one."""
    return None if clock is None else to_microseconds(clock())


def host_time(clock: Clock | None) -> int:
    """What ``:now`` is where the host's clock is the only one."""
    return time_ns() // 1000 if clock is None else to_microseconds(clock())


def ended_transaction_error() -> UsageError:
    """The error of a savepoint whose transaction was ended before it, by the code inside."""
    return UsageError(
        "the transaction was committed or rolled back inside this block, or failed there and the "
        "error was swallowed: let errors out, and end the transaction outside. What was committed "
        "inside stays"
    )
