"""An awaited driver under SQLAlchemy's ``run_sync``, as Alembic's asynchronous template runs.

There a blocking call works because SQLAlchemy's greenlet waits in its place. The wire asks for the
same through ``run_async`` of SQLAlchemy's adapter, so that the operation above never waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.stores.join.sqlalchemy_errors import explained

if TYPE_CHECKING:
    from collections.abc import Coroutine


class BridgedWire:
    """Stands before the wire of either database; savepoints are the owner's."""

    def __init__(self, wire: Any, adapter: Any) -> None:
        self._wire = wire
        self._adapter = adapter

    def refuse_outside(self) -> None:
        """Refuse to be used where no greenlet waits, before SQLAlchemy itself trips over it."""
        self._waited(nothing())

    async def fetch(self, statement: Any, values: Any) -> Any:
        """Run one statement and return its rows by column name."""
        return self._waited(self._wire.fetch(statement, values))

    async def write(self, statement: Any, each: Any) -> None:
        """Run one statement for many sets of values."""
        self._waited(self._wire.write(statement, each))

    async def ask(self, statement: Any, values: Any) -> Any:
        """Run a statement of the user's."""
        return self._waited(self._wire.ask(statement, values))

    async def plain(self, text: str) -> None:
        """Run one statement without parameters."""
        self._waited(self._wire.plain(text))

    async def begin(self) -> None:
        """Make sure a transaction is open."""
        self._waited(self._wire.begin())

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._wire.in_transaction())

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return bool(self._waited(self._wire.commits_by_itself()))

    def _waited(self, step: Coroutine[Any, Any, Any]) -> Any:
        try:
            with explained():
                return self._adapter.run_async(lambda _: step)
        finally:
            step.close()  # outside run_sync it was refused and never begun


async def nothing() -> None:
    """Something to wait for that is over at once."""
