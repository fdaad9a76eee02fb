"""Statements of SQLite's that write and return rows: they are over when these have been fetched.

Outside of a transaction such a statement is committed with its last row, or when nobody can fetch
that any more. Until then it has the write lock, although ``in_transaction`` is False, and whatever
else is written through the connection is committed with it.
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
NOTHING = "SELECT 1 WHERE 0"


def over(connection: Any, text: str, tell: Callable[[], None]) -> None:
    """Tell that a statement has been carried out: now, or as soon as it is committed."""
    if not connection.unfinished and RETURNING.search(text) is None:
        tell()
        return
    connection.unfinished.append(tell)
    look(connection)


def look(connection: Any) -> None:
    """Tell of what was not yet committed at the last look, and is now."""
    if connection.unfinished and not connection.is_writing():
        told, connection.unfinished = connection.unfinished, []
        for tell in told:
            tell()


def give_up(connection: Any, execute: Callable[[str], Any]) -> None:
    """End what a cursor has not fetched: its next statement would, in a moment that nobody sees."""
    if connection.unfinished:
        execute(NOTHING)
        look(connection)


def ending_connection(base: Any) -> Any:
    """The same class of connection, but one that knows what is not over yet."""

    class Ending(base):  # type: ignore[misc]  # whatever was asked for
        def __init__(self, *arguments: Any, **options: Any) -> None:
            # What will be told of statements that have been carried out.
            self.unfinished: list[Callable[[], None]] = []
            self._cursors: WeakSet[Any] = WeakSet()
            super().__init__(*arguments, **options)

        def cursor(self, *arguments: Any) -> Any:
            made = super().cursor(*arguments)
            self._cursors.add(made)
            return made

        def is_writing(self) -> bool:
            """Whether a statement that writes is not over: SQLite makes no savepoint beside it."""
            try:
                if self.in_transaction:
                    return False  # that has an end of its own, which is seen
                asking = super().cursor()  # one that nobody watches
                asking.execute("SAVEPOINT duly_looks")
                asking.execute("RELEASE duly_looks")
            except sqlite3.Error:  # also in another thread than the connection's, which cannot ask
                return True
            return False

        def close(self) -> None:
            # SQLite would keep the lock for as long as there is a cursor with rows left.
            for cursor in list(self._cursors) if self.unfinished else ():
                cursor.close()
            look(self)
            super().close()

    return Ending


def ending_cursor(base: Any) -> Any:
    """The same class of cursor, but one that looks whether its statement is over."""

    class Ending(base):  # type: ignore[misc]  # whatever was asked for
        def fetchone(self) -> Any:
            with looking(self):
                return super().fetchone()

        def fetchmany(self, *arguments: Any, **options: Any) -> Any:
            with looking(self):
                return super().fetchmany(*arguments, **options)

        def fetchall(self) -> Any:
            with looking(self):
                return super().fetchall()

        def __next__(self) -> Any:
            with looking(self):
                return super().__next__()

        def close(self) -> None:
            with looking(self):
                super().close()

        def __del__(self) -> None:
            # Its statement ends with it, a moment after this, when nobody can look any more.
            if self.connection.unfinished:
                with suppress(sqlite3.Error):  # in another thread: the next look will tell
                    self.close()

    return Ending


@contextmanager
def looking(cursor: Any) -> Iterator[None]:
    """Around what may end the statement of a cursor."""
    try:
        yield
    finally:
        look(cursor.connection)
