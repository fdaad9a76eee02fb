"""The adapters to psycopg, sync and async.

A plain cursor of duly's own runs each statement, because the connection's row and cursor
factories belong to the user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from duly.core.errors import NotJoinable
from duly.core.session import Rows
from duly.stores.postgres.arrays import build_arrays
from duly.stores.postgres.deadlines import DeadlineAsyncConnection, DeadlineConnection
from duly.stores.postgres.errors import translate_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from duly.core.session import Row
    from duly.stores.postgres.session import Values
    from duly.stores.sql.placeholders import Prepared

# Begins the transaction of an idle connection without touching anything.
PLAIN_STATEMENT = "SELECT 1"
OWN_CONNECTIONS = (DeadlineConnection, DeadlineAsyncConnection)


class PsycopgBaseAdapter(ABC):
    """What the adapters to both kinds of psycopg's connections share."""

    _connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

    @abstractmethod
    async def _run(self, text: str, values: Mapping[str, Any] | None = None) -> Rows:
        """Run one statement and return what it found."""

    async def fetch(self, statement: Prepared, values: Values) -> Sequence[Row]:
        """Run one statement and return its rows."""
        # The user's own connection may have been made before psycopg was told of built arrays.
        if statement.arrays and isinstance(self._connection, OWN_CONNECTIONS):
            values = build_arrays(statement, values)
        with translate_errors:
            return await self._run(statement.text, values)

    async def ask(self, statement: Prepared, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's; its errors stay the driver's own."""
        return await self._run(statement.text, values)

    async def plain(self, text: str) -> None:
        """Run one statement without parameters."""
        with translate_errors:
            await self._run(text)

    async def begin(self) -> None:
        """Open the transaction of an idle connection, so that a savepoint is not the outermost."""
        if must_begin(self._connection):
            await self._run(PLAIN_STATEMENT)


class PsycopgAdapter(PsycopgBaseAdapter):
    """A ``psycopg.Connection``: nothing here awaits."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection: psycopg.Connection[Any] = connection

    async def _run(self, text: str, values: Mapping[str, Any] | None = None) -> Rows:
        cursor = psycopg.Cursor(self._connection, row_factory=dict_row)
        cursor.execute(text, values)
        return Rows(cursor.fetchall() if cursor.description else [], cursor.rowcount)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A savepoint; psycopg makes one because a transaction is open."""
        with self._connection.transaction():
            yield


class PsycopgAsyncAdapter(PsycopgBaseAdapter):
    """A ``psycopg.AsyncConnection``."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection: psycopg.AsyncConnection[Any] = connection

    async def _run(self, text: str, values: Mapping[str, Any] | None = None) -> Rows:
        cursor = psycopg.AsyncCursor(self._connection, row_factory=dict_row)
        await cursor.execute(text, values)
        return Rows(await cursor.fetchall() if cursor.description else [], cursor.rowcount)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A savepoint; psycopg makes one because a transaction is open."""
        async with self._connection.transaction():
            yield


def must_begin(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the connection is idle and will begin by itself; refuse where it cannot be joined."""
    match connection.pgconn.transaction_status:
        case TransactionStatus.INTRANS:
            return False
        case TransactionStatus.IDLE if not connection.autocommit:
            return True
        case TransactionStatus.IDLE:
            raise NotJoinable(
                "this psycopg connection is in autocommit mode and no transaction is open: "
                "call duly inside `with connection.transaction():`"
            )
        case TransactionStatus.INERROR:
            raise NotJoinable(
                "this psycopg connection's transaction has failed: roll it back, then run it again"
            )
        case TransactionStatus.ACTIVE:
            raise NotJoinable("this psycopg connection is running another statement right now")
        case _:
            raise NotJoinable("this psycopg connection is closed: pass an open one")
