"""An awaited driver under SQLAlchemy's ``run_sync``, as Alembic's asynchronous template runs.

There a blocking call works because SQLAlchemy's greenlet waits in its place. The wire asks for the
same through ``run_async`` of SQLAlchemy's adapter, so that the operation above never waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.stores.join.sqlalchemy_errors import translate_sqlalchemy_errors

if TYPE_CHECKING:
    from collections.abc import Coroutine


class RunSyncAdapter:
    """Stands before the wire of either database; savepoints are the owner's."""

    def __init__(self, inner: Any, dbapi_connection: Any) -> None:
        self._inner = inner
        self._dbapi_connection = dbapi_connection

    def refuse_outside_greenlet(self) -> None:
        """Refuse to be used where no greenlet waits, before SQLAlchemy itself trips over it."""
        self._await_in_greenlet(do_nothing())

    async def fetch(self, statement: Any, values: Any) -> Any:
        """Run one statement and return its rows by column name."""
        return self._await_in_greenlet(self._inner.fetch(statement, values))

    async def write(self, statement: Any, each: Any) -> None:
        """Run one statement for many sets of values."""
        self._await_in_greenlet(self._inner.write(statement, each))

    async def ask(self, statement: Any, values: Any) -> Any:
        """Run a statement of the user's."""
        return self._await_in_greenlet(self._inner.ask(statement, values))

    async def plain(self, text: str) -> None:
        """Run one statement without parameters."""
        self._await_in_greenlet(self._inner.plain(text))

    async def begin(self) -> None:
        """Make sure a transaction is open."""
        self._await_in_greenlet(self._inner.begin())

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._inner.in_transaction())

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return bool(self._await_in_greenlet(self._inner.commits_by_itself()))

    def _await_in_greenlet(self, step: Coroutine[Any, Any, Any]) -> Any:
        try:
            with translate_sqlalchemy_errors():
                return self._dbapi_connection.run_async(lambda _: step)
        finally:
            step.close()  # outside run_sync it was refused and never begun


async def do_nothing() -> None:
    """Something to wait for that is over at once."""
