"""The two ways to reach SQLite: `sqlite3`, which blocks, and `aiosqlite`, which is awaited.

Both read columns by name through a cursor with a row factory of its own, because the connection's
belongs to the user.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from duly.core.errors import NotJoinable
from duly.core.session import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiosqlite

    from duly.core.session import Row, Value


# What sqlite3 and aiosqlite say of a connection that is closed or was never opened.
NOT_OPEN = (sqlite3.ProgrammingError, ValueError)


class Sqlite3Adapter:
    """A ``sqlite3.Connection``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement; returns without ever waiting."""
        return fetch_rows(self._connection, text, values)

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> None:
        """Run one statement for many sets of values."""
        write_each(self._connection, text, each)

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's."""
        return execute_user_statement(self._connection, text, values)

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        try:
            return self._connection.in_transaction
        except NOT_OPEN as problem:
            raise not_open_error() from problem

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        return autocommits(self._connection)


class AiosqliteAdapter:
    """An ``aiosqlite.Connection``: its own thread does the work."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
        """Run one statement on the connection's thread."""
        # Cursor, statement and rows in one trip to the thread and back: in public, aiosqlite makes
        # a trip for each, and the trips are most of what a statement costs.
        on_its_thread: Any = self._connection._execute
        rows: list[Row] = await on_its_thread(fetch_rows, self._connection._conn, text, values)
        return rows

    async def write(self, text: str, each: Sequence[Mapping[str, Value]]) -> None:
        """Run one statement for many sets of values on the connection's thread."""
        on_its_thread: Any = self._connection._execute
        await on_its_thread(write_each, self._connection._conn, text, each)

    async def ask(self, text: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement of the user's on the connection's thread."""
        on_its_thread: Any = self._connection._execute
        rows: Rows = await on_its_thread(
            execute_user_statement, self._connection._conn, text, values
        )
        return rows

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        try:
            return self._connection.in_transaction
        except NOT_OPEN as problem:
            raise not_open_error() from problem

    async def commits_by_itself(self) -> bool:
        """Whether a statement outside BEGIN would be committed at once."""
        # Since Python 3.12 the answer is given on the connection's own thread only, and aiosqlite
        # has no public call that asks there.
        on_its_thread: Any = self._connection._execute
        return bool(await on_its_thread(autocommits, self._connection._conn))


def not_open_error() -> NotJoinable:
    """The error of a connection that is closed, or, with aiosqlite, was never awaited."""
    return NotJoinable("this SQLite connection is not open: pass an open one")


def fetch_rows(connection: sqlite3.Connection, text: str, values: Mapping[str, Value]) -> list[Row]:
    """Run one statement and return its rows by column name."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    return cursor.execute(text, values).fetchall()


def write_each(
    connection: sqlite3.Connection, text: str, each: Sequence[Mapping[str, Value]]
) -> None:
    """Run one statement for many sets of values.

    Not ``executemany``: on Python 3.13 it leaves a statement with RETURNING unfinished, and the
    next set of values fails.
    """
    cursor = connection.cursor()
    for values in each:
        cursor.execute(text, values).fetchall()


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
