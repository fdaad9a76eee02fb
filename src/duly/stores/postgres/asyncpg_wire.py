"""PostgreSQL through asyncpg: joined, never opened."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from duly._kernel.errors import NotJoinable
from duly.stores.postgres.errors import translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from duly._kernel.session import Row
    from duly.stores.postgres.session import Values
    from duly.stores.sql.placeholders import Prepared


class AsyncpgWire:
    """An ``asyncpg.Connection`` inside its ``transaction()``."""

    def __init__(self, connection: Any) -> None:  # Any: a pool hands out proxies of no common type
        self._connection = connection

    async def fetch(self, statement: Prepared, values: Values) -> Sequence[Row]:
        """Run one statement; asyncpg takes parameters by position."""
        with translated():
            rows: Sequence[Row] = await self._connection.fetch(
                statement.text, *(values[name] for name in statement.order)
            )
            return rows

    async def plain(self, text: str) -> None:
        """Run one statement without parameters."""
        with translated():
            await self._connection.execute(text)

    async def begin(self) -> None:
        """Refuse a connection that would commit our statement by itself."""
        if self._connection.is_closed():
            raise NotJoinable("this asyncpg connection is closed: pass an open one")
        if not self._connection.is_in_transaction():
            raise NotJoinable(
                "this asyncpg connection has no transaction open and would commit each statement "
                "by itself: call duly inside `async with connection.transaction():`"
            )

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A savepoint; asyncpg makes one inside a transaction that it began itself."""
        transaction = self._connection.transaction()
        try:
            await transaction.start()
        except asyncpg.InterfaceError as problem:
            raise NotJoinable(
                "this asyncpg connection's transaction was begun by hand, and asyncpg opens no "
                "savepoint in it: use `async with connection.transaction():`"
            ) from problem
        try:
            yield
        except BaseException:
            await transaction.rollback()
            raise
        await transaction.commit()
