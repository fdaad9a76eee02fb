"""A session that gets its driver connection from SQLAlchemy or Django when it begins.

Both hand out the driver's connection late, and SQLAlchemy's async side only awaited. Statements
then run on that connection directly, so that columns and parameters are those of the driver, while
the framework begins and nests.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from duly.core.session import Session
from duly.stores.join.drivers import check_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from duly.core.defaults import Names
    from duly.core.session import Dialect, Row, Rows, Value, WorkKind


class JoinedOwner(Protocol):
    """An owner that knows whether its transaction is still the one that was joined."""

    def refuse_ended(self) -> None:
        """Raise where the code inside a savepoint ended the transaction around it.

        The driver's connection may be back in its pool by then, and serve other code.
        """


# Finds the session over the driver's connection, and the transaction's owner, or refuses.
FindSession = Callable[[], Coroutine[Any, Any, tuple[Session, JoinedOwner]]]


class LazySession:
    """Asks for the driver's connection in ``begin``, then forwards to the session over it."""

    def __init__(self, find: FindSession, names: Names, dialect: Dialect) -> None:
        check_names(names, dialect)
        self._find = find
        self._names = names
        self._dialect: Dialect = dialect
        self._found: tuple[Session, JoinedOwner] | None = None
        self.new_work: set[WorkKind] = set()

    @property
    def names(self) -> Names:
        """Where duly's tables are."""
        return self._names

    @property
    def dialect(self) -> Dialect:
        """Which database this is."""
        return self._dialect

    @property
    def can_batch(self) -> bool:
        """Whether a batch is one statement."""
        return self._session.can_batch

    @property
    def can_move_rows(self) -> bool:
        """Whether one statement can delete a row here and write it elsewhere."""
        return self._session.can_move_rows

    async def begin(self, wait: timedelta | None) -> None:
        """Find the driver's connection, and make sure that a transaction is open on it."""
        self._found = await self._find()
        await self._session.begin(wait)

    async def rows(self, statement: str, **values: Value) -> Sequence[Row]:
        """Run one named statement."""
        return await self._session.rows(statement, **values)

    async def rows_each(
        self, statement: str, each: Sequence[Mapping[str, Value]], **shared: Value
    ) -> Sequence[Row]:
        """Run one named statement for many sets of values."""
        return await self._session.rows_each(statement, each, **shared)

    async def write_each(self, statement: str, each: Sequence[dict[str, Value]]) -> None:
        """Run one named statement for many sets of values."""
        await self._session.write_each(statement, each)

    async def execute(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's."""
        return await self._session.execute(text, values)

    async def execute_raw(self, text: str) -> None:
        """Run one statement of a migration."""
        await self._session.execute_raw(text)

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A savepoint, opened through the framework."""
        return self._session.savepoint()

    def limit_lock_waits(self, wait: timedelta | None) -> AbstractAsyncContextManager[None]:
        """Bound lock waits inside."""
        return self._session.limit_lock_waits(wait)

    @property
    def _session(self) -> Session:
        if self._found is None:
            raise RuntimeError("an operation used its session before begin()")
        session, owner = self._found
        owner.refuse_ended()
        return session
