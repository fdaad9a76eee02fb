"""The adapter to asyncpg, whose connections duly joins and never opens."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from duly.core.errors import NotJoinable
from duly.core.session import Rows, ended_transaction_error
from duly.stores.postgres.errors import translate_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from duly.core.session import Row
    from duly.stores.postgres.session import Values
    from duly.stores.sql.placeholders import Prepared


class AsyncpgAdapter:
    """An ``asyncpg.Connection`` inside its ``transaction()``."""

    def __init__(self, connection: Any) -> None:  # Any: a pool hands out proxies of no common type
        self._connection = connection
        self._savepoints = 0

    async def fetch(self, statement: Prepared, values: Values) -> Sequence[Row]:
        """Run one statement; asyncpg takes parameters by position."""
        self._refuse_ended()
        with translate_errors:
            rows: Sequence[Row] = await self._connection.fetch(
                statement.text, *(values[name] for name in statement.order)
            )
            return rows

    async def ask(self, statement: Prepared, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's; its errors stay the driver's own."""
        prepared = await self._connection.prepare(statement.text)
        found = await prepared.fetch(*(values[name] for name in statement.order))
        return Rows([dict(row) for row in found], rowcount_from_status(prepared.get_statusmsg()))

    async def plain(self, text: str) -> None:
        """Run one statement without parameters."""
        with translate_errors:
            await self._connection.execute(text)

    async def begin(self) -> None:
        """Refuse a connection that would commit our statement by itself."""
        if is_closed_or_returned(self._connection):
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
            with translate_errors:
                await transaction.start()
        except asyncpg.InterfaceError as problem:
            raise NotJoinable(
                "this asyncpg connection's transaction was begun by hand, and asyncpg opens no "
                "savepoint in it: use `async with connection.transaction():`"
            ) from problem
        self._savepoints += 1
        try:
            yield
            self._refuse_ended()
        except BaseException:
            if self._connection.is_in_transaction():
                await transaction.rollback()
            raise
        finally:
            self._savepoints -= 1
        await transaction.commit()

    def _refuse_ended(self) -> None:
        """Raise after the user's own COMMIT: the next statement would be committed by itself."""
        if self._savepoints and not self._connection.is_in_transaction():
            raise ended_transaction_error()


def rowcount_from_status(status: str) -> int:
    """The number of rows at the end of a command tag such as ``UPDATE 3``."""
    number = status.rpartition(" ")[2]
    return int(number) if number.isdecimal() else -1


def is_closed_or_returned(connection: Any) -> bool:
    """Whether the connection is closed, or was given back to its pool."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # raised by a proxy whose connection was given back
        return True
