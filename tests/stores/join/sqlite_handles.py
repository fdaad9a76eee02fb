"""SQLite held directly: sqlite3 in each of its transaction modes, and aiosqlite."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite

from tests.stores.join.handles import AwaitedHandle, BlockingHandle, Values


def path_of(url: str) -> str:
    """The file behind ``sqlite:///file``."""
    return url.removeprefix("sqlite:///")


class Sqlite3Handle(BlockingHandle):
    """A ``sqlite3.Connection``."""

    def __init__(self, connection: sqlite3.Connection, *, begins: bool = True) -> None:
        self.connection = connection
        self._begins = begins

    async def begin(self) -> None:
        if self._begins:
            self.connection.execute("BEGIN")

    async def commit(self) -> None:
        # autocommit=True turns commit() and rollback() into nothing: there one says it in SQL.
        if getattr(self.connection, "autocommit", None) is True:
            self.connection.execute("COMMIT")
        self.connection.commit()

    async def rollback(self) -> None:
        if getattr(self.connection, "autocommit", None) is True:
            self.connection.execute("ROLLBACK")
        self.connection.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        self.connection.execute(sql, values or {}).close()

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(sql, values or {}).fetchall()]

    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        self.connection.execute("SAVEPOINT mine")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK TO mine")
            raise
        finally:
            self.connection.execute("RELEASE mine")


class AiosqliteHandle(AwaitedHandle):
    """An ``aiosqlite.Connection``."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection

    async def begin(self) -> None:
        await self.connection.execute("BEGIN")

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        await self.connection.execute(sql, dict(values or {}))

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        found = await self.connection.execute_fetchall(sql, dict(values or {}))
        return [tuple(row) for row in found]

    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        await self.connection.execute("SAVEPOINT mine")
        try:
            yield
        except BaseException:
            await self.connection.execute("ROLLBACK TO mine")
            raise
        finally:
            await self.connection.execute("RELEASE mine")


@asynccontextmanager
async def sqlite3_handle(
    url: str, *, begins: bool = True, **options: Any
) -> AsyncIterator[Sqlite3Handle]:
    """Open with sqlite3; ``options`` are those of ``sqlite3.connect``."""
    connection = sqlite3.connect(path_of(url), **options)
    try:
        yield Sqlite3Handle(connection, begins=begins)
    finally:
        connection.close()


@asynccontextmanager
async def odd_sqlite3_handle(url: str) -> AsyncIterator[Sqlite3Handle]:
    """Text as bytes, rows as mappings, and a little patience: settings that are the user's."""
    async with sqlite3_handle(url, timeout=1.25) as handle:
        handle.connection.row_factory = sqlite3.Row
        handle.connection.text_factory = bytes
        yield handle


@asynccontextmanager
async def aiosqlite_handle(url: str) -> AsyncIterator[AiosqliteHandle]:
    """Open with aiosqlite."""
    async with aiosqlite.connect(path_of(url)) as connection:
        yield AiosqliteHandle(connection)
