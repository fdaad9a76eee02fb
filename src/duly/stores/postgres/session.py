"""A session on PostgreSQL over a `PostgresAdapter`: psycopg sync or async, or asyncpg."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from duly.core.errors import UsageError
from duly.core.session import (
    Column,
    Dialect,
    Owner,
    Row,
    Rows,
    Value,
    WorkKind,
    database_time,
)
from duly.stores.sql.migrations import split_statements
from duly.stores.sql.placeholders import prepare

if TYPE_CHECKING:
    from duly.core.clock import Clock
    from duly.stores.sql.placeholders import Prepared, Style
    from duly.stores.sql.statements import Statements

# PostgreSQL keeps lock_timeout in 32 bits: 24 days.
LONGEST = 2**31 - 1
Values = Mapping[str, Value | Column]


class PostgresAdapter(Protocol):
    """One PostgreSQL connection."""

    async def fetch(self, statement: Prepared, values: Values) -> Sequence[Row]:
        """Run one statement and return its rows by column name."""

    async def ask(self, statement: Prepared, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's and return what it found."""

    async def plain(self, text: str) -> None:
        """Run one statement without parameters as it is written."""

    async def begin(self) -> None:
        """Make sure a transaction is open, or refuse a connection that commits by itself."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A savepoint opened through the driver."""


class PostgresSession:
    """Runs named statements on one connection. Never commits, rolls back or closes it.

    ``bound`` is set on duly's own connections only: the longest wait for a lock, sent along with
    each statement that may have to wait. With ``runs_user_code`` a handler runs in the same
    transaction: then the bound is taken back after each such statement, before the handler goes on.
    """

    can_batch = can_move_rows = True
    can_look_first = False

    def __init__(
        self,
        adapter: PostgresAdapter,
        statements: Statements,
        clock: Clock | None,
        *,
        owner: Owner | None = None,
        bound: timedelta | None = None,
        runs_user_code: bool = False,
    ) -> None:
        self._adapter = adapter
        self._statements = statements
        self._clock = clock
        self._owner = owner
        self._bound = None if bound is None else lock_timeout(bound)
        self._runs_user_code = runs_user_code and bound is not None
        self.names = statements.names
        self.dialect: Dialect = statements.dialect
        self.new_work: set[WorkKind] = set()

    async def begin(self, wait: timedelta | None) -> None:  # noqa: ARG002 - BEGIN never waits here
        """Begin before any savepoint: an outermost one would commit at its end."""
        if self._owner is not None:
            await self._owner.begin()
        await self._adapter.begin()

    async def rows(self, statement: str, **values: Value | Column) -> Sequence[Row]:
        """Run one named statement."""
        values["now"] = database_time(self._clock)
        values["wait"] = self._bound
        return await self._fetch(statement, values)

    async def rows_each(
        self, statement: str, each: Sequence[Mapping[str, Value]], **shared: Value
    ) -> Sequence[Row]:
        """Run the statement's ``_many`` form: one round trip, an array for each column."""
        if not each:
            return []
        # Arrays of bytes carry an empty value for none, so that their type is always known.
        arrays: dict[str, Column] = {
            name: [b"" if (value := one[name]) is None else value for one in each]
            for name in each[0]
        }
        values = {"now": database_time(self._clock), "wait": self._bound, **shared, **arrays}
        return await self._fetch(f"{statement}_many", values)

    async def _fetch(self, statement: str, values: Values) -> Sequence[Row]:
        """Run a statement; its bound on lock waits does not apply to the handler's after it.

        After an error there is nothing to do: a caller that goes on rolls back to a savepoint
        first, and that restores the setting by itself.
        """
        prepared = self._statements[statement]
        found = await self._adapter.fetch(prepared, values)
        if self._runs_user_code and "wait" in prepared.order:
            await self._adapter.fetch(self._statements["wait_end"], {})
        return found

    async def write(self, statement: str, **values: Value) -> int:
        """Run one named statement and count its rows."""
        return len(await self.rows(statement, **values))

    async def write_each(self, statement: str, each: Sequence[dict[str, Value]]) -> int:
        """Run the statement for one set of values after the other."""
        return sum([len(await self.rows(statement, **one)) for one in each])

    async def execute(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's, its parameters in the driver's spelling."""
        return await self._adapter.ask(prepare_user_statement(text, self._statements.style), values)

    async def execute_raw(self, text: str) -> None:
        """Run one statement of a migration."""
        await self._adapter.plain(text)

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A savepoint, through the owner if there is one."""
        return (self._owner or self._adapter).savepoint()

    def limit_lock_waits(self, wait: timedelta | None) -> AbstractAsyncContextManager[None]:
        """Bound lock waits inside, then restore the setting.

        After an error PostgreSQL takes no statement until the savepoint around this is rolled
        back, and rolling it back restores the setting by itself.
        """
        return nullcontext() if wait is None else self._bound_lock_waits(wait)

    @asynccontextmanager
    async def _bound_lock_waits(self, wait: timedelta) -> AsyncIterator[None]:
        statements = self._statements
        [setting] = await self._adapter.fetch(
            statements["wait_bound"], {"wait": lock_timeout(wait)}
        )
        yield
        before = setting["before"]  # bytes where the database has no encoding
        before = before if isinstance(before, str) else before.decode()
        await self._adapter.fetch(statements["wait_restore"], {"before": before})


@lru_cache(maxsize=1024)
def prepare_user_statement(text: str, style: Style) -> Prepared:
    """A statement of the user's in a driver's spelling, cached: handlers run the same few.

    One at a time: PostgreSQL would take several without parameters, a COMMIT among them.
    """
    if len(split_statements(text)) > 1:
        raise UsageError("tx.execute takes one statement at a time: call it for each")
    return prepare(text, style)


def lock_timeout(wait: timedelta) -> str:
    """PostgreSQL's spelling of a wait; its zero would mean no bound at all."""
    return f"{min(max(1, -(-wait // timedelta(milliseconds=1))), LONGEST)}ms"
