"""PostgreSQL held directly: psycopg in both colours, asyncpg and its pool."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
from psycopg.pq import TransactionStatus

from duly.stores.sql.placeholders import prepare
from tests.stores.join.handles import AwaitedHandle, BlockingHandle, Values

# What psycopg's transaction() is told to do at its end without an error of ours.
UNDO = psycopg.Rollback


class PsycopgHandle(BlockingHandle):
    """A ``psycopg.Connection`` that begins by itself."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    async def begin(self) -> None:
        self.connection.execute("SELECT 1")

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        cursor = psycopg.Cursor(self.connection)  # the connection's own may spell otherwise
        cursor.execute(prepare(sql, "pyformat").text, values or {})

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        cursor = psycopg.Cursor(self.connection)
        return cursor.execute(prepare(sql, "pyformat").text, values or {}).fetchall()

    def in_transaction(self) -> bool:
        return bool(self.connection.info.transaction_status != TransactionStatus.IDLE)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self.connection.transaction():
            yield


class PsycopgBlockHandle(PsycopgHandle):
    """A ``psycopg.Connection`` in autocommit mode, inside its ``transaction()``."""

    async def begin(self) -> None:
        self._block = self.connection.transaction()
        self._block.__enter__()

    async def commit(self) -> None:
        self._block.__exit__(None, None, None)

    async def rollback(self) -> None:
        undo = UNDO(self._block)
        self._block.__exit__(type(undo), undo, None)


class PsycopgAsyncHandle(AwaitedHandle):
    """A ``psycopg.AsyncConnection`` that begins by itself."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection

    async def begin(self) -> None:
        await self.connection.execute("SELECT 1")

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        cursor = psycopg.AsyncCursor(self.connection)
        await cursor.execute(prepare(sql, "pyformat").text, values or {})

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        cursor = psycopg.AsyncCursor(self.connection)
        await cursor.execute(prepare(sql, "pyformat").text, values or {})
        return await cursor.fetchall()

    def in_transaction(self) -> bool:
        return bool(self.connection.info.transaction_status != TransactionStatus.IDLE)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self.connection.transaction():
            yield


class AsyncpgHandle(AwaitedHandle):
    """An ``asyncpg.Connection`` inside its ``transaction()``, or its pool's proxy."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        statement = prepare(sql, "dollar")
        await self.connection.execute(
            statement.text, *((values or {})[name] for name in statement.order)
        )

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        statement = prepare(sql, "dollar")
        rows = await self.connection.fetch(
            statement.text, *((values or {})[name] for name in statement.order)
        )
        return [tuple(row) for row in rows]

    def in_transaction(self) -> bool:
        return bool(self.connection.is_in_transaction())

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self.connection.transaction():
            yield


@asynccontextmanager
async def psycopg_handle(url: str) -> AsyncIterator[PsycopgHandle]:
    """Open with psycopg, blocking."""
    with psycopg.connect(url) as connection:
        yield PsycopgHandle(connection)
        connection.rollback()  # leaving the block would commit what a test has left open


@asynccontextmanager
async def psycopg_block_handle(url: str) -> AsyncIterator[PsycopgHandle]:
    """Open with psycopg in autocommit mode."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield PsycopgBlockHandle(connection)


@asynccontextmanager
async def psycopg_async_handle(url: str) -> AsyncIterator[PsycopgAsyncHandle]:
    """Open with psycopg, awaited."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield PsycopgAsyncHandle(connection)
        await connection.rollback()


@asynccontextmanager
async def asyncpg_handle(url: str) -> AsyncIterator[AsyncpgHandle]:
    """Open with asyncpg."""
    connection = await asyncpg.connect(url)
    try:
        yield AsyncpgHandle(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool_handle(url: str) -> AsyncIterator[AsyncpgHandle]:
    """Take a connection of an asyncpg pool."""
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
    ):
        yield AsyncpgHandle(connection)
