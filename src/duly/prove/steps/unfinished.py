"""Statements of SQLite's that return rows: some are over only when these have been fetched.

Outside of a transaction one that writes is committed with its last row, or when that can no longer
be fetched. Until then it has the write lock, although ``in_transaction`` is False, and everything
else that is written through the connection is committed with it.

One that only reads keeps others from committing, too, unless the file has a write-ahead log. What
is done beside it is done by itself.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Only with this word a statement that writes has rows.
RETURNING = re.compile(r"\bRETURNING\b", re.IGNORECASE)
# What only reads; a word that may also be one of its columns' makes it count as over at once.
READS = re.compile(
    r"\s*(?:SELECT|VALUES|WITH(?!.*\b(?:INSERT|UPDATE|DELETE|REPLACE)\b))\b",
    re.IGNORECASE | re.DOTALL,
)
NOTHING = "SELECT 1 WHERE 0"


def tell_when_over(connection: Any, text: str, tell: Callable[[], None]) -> None:
    """Tell that a statement has been carried out: now, or as soon as it is committed."""
    if connection.unfinished or RETURNING.search(text) is not None:
        connection.unfinished.append(tell)
        tell_finished(connection)
    elif READS.match(text) is not None and is_reading(connection):
        connection.unread.append(tell)
    else:
        tell()


def tell_finished(connection: Any) -> None:
    """Tell of what was not yet over at the last look, and is now."""
    if connection.unread and not is_reading(connection):
        told, connection.unread = connection.unread, []
        for tell in told:
            tell()
    if connection.unfinished and not is_writing(connection):
        told, connection.unfinished = connection.unfinished, []
        for tell in told:
            tell()


def finish_pending_rows(connection: Any, execute: Callable[[str], Any]) -> None:
    """End what a cursor has not fetched: its next statement would do so unwatched."""
    if has_rows(connection):
        execute(NOTHING)
        tell_finished(connection)


def has_rows(connection: Any) -> bool:
    """Whether a connection holds a lock for rows that have not been fetched."""
    return bool(connection.unfinished or connection.unread)


def is_writing(connection: Any) -> bool:
    """Whether a statement that writes is not over: SQLite makes no savepoint beside it."""
    try:
        if connection.in_transaction:
            return False  # that has an end of its own, which is seen
        asking = connection.unwatched()
        asking.execute("SAVEPOINT duly_looks")
        asking.execute("RELEASE duly_looks")
    except sqlite3.Error:  # also in another thread than the connection's, which cannot ask
        return True
    return False


def is_reading(connection: Any) -> bool:
    """Whether rows are left that keep others from writing.

    SQLite does not define a function anew while a statement of the connection is not over.
    """
    try:
        if connection.in_transaction:
            return False  # as above
        asking = connection.unwatched()
        asking.row_factory = None
        if asking.execute("PRAGMA journal_mode").fetchall() == [("wal",)]:
            return False
        for _ in range(2):
            connection.create_function("duly_looks", 0, int)
    except sqlite3.Error:  # also in another thread, as above
        return True
    return False


def ending_connection(base: Any) -> Any:
    """The same class of connection, but one that knows what is not over yet."""

    class Ending(base):  # type: ignore[misc]  # the class that was asked for
        def __init__(self, *arguments: Any, **options: Any) -> None:
            # What will be recorded of finished statements.
            self.unfinished: list[Callable[[], None]] = []
            # And of those that only read.
            self.unread: list[Callable[[], None]] = []
            self._cursors: WeakSet[Any] = WeakSet()
            super().__init__(*arguments, **options)

        def cursor(self, *arguments: Any) -> Any:
            made = super().cursor(*arguments)
            self._cursors.add(made)
            return made

        def unwatched(self) -> Any:
            """A cursor that is not watched."""
            return super().cursor()

        def close(self) -> None:
            # SQLite would keep the lock for as long as there is a cursor with rows left.
            for cursor in list(self._cursors) if has_rows(self) else ():
                cursor.close()
            tell_finished(self)
            super().close()

    return Ending


def ending_cursor(base: Any) -> Any:
    """The same class of cursor, but one that looks whether its statement is over."""

    class Ending(base):  # type: ignore[misc]  # the class that was asked for
        def fetchone(self) -> Any:
            with tell_finished_after(self):
                return super().fetchone()

        def fetchmany(self, *arguments: Any, **options: Any) -> Any:
            with tell_finished_after(self):
                return super().fetchmany(*arguments, **options)

        def fetchall(self) -> Any:
            with tell_finished_after(self):
                return super().fetchall()

        def __next__(self) -> Any:
            with tell_finished_after(self):
                return super().__next__()

        def close(self) -> None:
            with tell_finished_after(self):
                super().close()

        def __del__(self) -> None:
            # Its statement ends with it, a moment after this, unwatched.
            if has_rows(self.connection):
                with suppress(sqlite3.Error):  # in another thread: the next look will tell
                    self.close()

    return Ending


@contextmanager
def tell_finished_after(cursor: Any) -> Iterator[None]:
    """Around what may end the statement of a cursor."""
    try:
        yield
    finally:
        tell_finished(cursor.connection)
