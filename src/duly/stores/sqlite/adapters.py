"""The adapters to SQLite: `sqlite3` on the calling thread, or on a thread of its own for asyncio.

All read columns by name through a cursor with a row factory of its own, because the connection's
belongs to the user.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from duly.core.errors import NotJoinable
from duly.core.session import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.core.session import Row, Value
    from duly.stores.sqlite.connection import WriterConnection
    from duly.stores.sqlite.thread import SqliteThread

T = TypeVar("T")

# What sqlite3 and aiosqlite say of a connection that is closed or was never opened.
NOT_OPEN = (sqlite3.ProgrammingError, ValueError)


class Sqlite3Adapter:
    """A ``sqlite3.Connection``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement without awaiting."""
        return fetch_rows(self._connection, text, values)

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> int:
        """Run one statement for many sets of values."""
        return write_each(self._connection, text, each)

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's."""
        return execute_user_statement(self._connection, text, values)

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return is_in_transaction(self._connection)

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return autocommits(self._connection)


class ThreadAdapter(ABC):
    """A connection whose statements run on another thread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @abstractmethod
    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function with the ``sqlite3.Connection`` on the thread."""

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement on the thread."""
        return await self._call(fetch_rows, text, values)

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> int:
        """Run one statement for many sets of values on the thread."""
        return await self._call(write_each, text, each)

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's on the thread."""
        return await self._call(execute_user_statement, text, values)

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return is_in_transaction(self._connection)

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once.

        Since Python 3.12 the answer is given on the connection's own thread only.
        """
        return await self._call(autocommits)


class AiosqliteAdapter(ThreadAdapter):
    """An ``aiosqlite.Connection``: its own thread does the work."""

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        # Cursor, statement and rows in one trip to the thread and back: in public, aiosqlite makes
        # a trip for each, and the trips are most of what a statement costs. Nor has it a public
        # call that asks for the autocommit mode there.
        result: T = await self._connection._execute(function, self._connection._conn, *arguments)
        return result


class WriterAdapter(ThreadAdapter):
    """duly's writing connection on duly's own thread, so that the event loop never blocks."""

    def __init__(self, connection: WriterConnection, thread: SqliteThread) -> None:
        super().__init__(connection)
        self._thread = thread

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self._thread.run(lambda: function(self._connection, *arguments))


def is_in_transaction(connection: Any) -> bool:
    """Whether a transaction is open; refuse a connection that is closed or was never opened."""
    try:
        return bool(connection.in_transaction)
    except NOT_OPEN as problem:
        raise NotJoinable("this SQLite connection is not open: pass an open one") from problem


def fetch_rows(connection: sqlite3.Connection, text: str, values: Mapping[str, Value]) -> list[Row]:
    """Run one statement and return its rows by column name."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    return cursor.execute(text, values).fetchall()


def write_each(
    connection: sqlite3.Connection, text: str, each: Sequence[Mapping[str, Value]]
) -> int:
    """Run one statement without RETURNING for many sets of values; return the rows written.

    With RETURNING, Python 3.13 would leave it unfinished, and the next set of values would fail.
    """
    return connection.cursor().executemany(text, each).rowcount


def execute_user_statement(
    connection: sqlite3.Connection, text: str, values: Mapping[str, Any]
) -> Rows:
    """Run a statement of the user's; rows as dicts, as the other stores give them."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    found = cursor.execute(text, values).fetchall()
    return Rows([dict(row) for row in found], cursor.rowcount)


def autocommits(connection: sqlite3.Connection) -> bool:
    """Whether this connection commits each statement outside BEGIN by itself.

    Python 3.12 added ``autocommit``, which overrules ``isolation_level`` unless it is left at its
    default, a number that is neither True nor False.
    """
    setting = getattr(connection, "autocommit", None)
    if setting is True or setting is False:
        return bool(setting)
    return connection.isolation_level is None
