"""A connection of duly's own, which can be taken from a handler that is using it.

Two threads in SQLite on one connection can freeze the process: one has SQLite's lock and waits for
Python's, in the function that guards the transaction, and the other waits the other way round. So
each call takes a lock of ours first. Whoever takes the connection away interrupts the call that has
it, waits for that lock, and refuses every later call.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

REVOKED = "this transaction was taken away: its handler ran longer than it may, or lost its lease"


class WriterCursor(sqlite3.Cursor):
    """A cursor whose calls into SQLite take turns with whoever takes the connection away."""

    connection: WriterConnection

    def execute(self, *arguments: Any) -> Self:
        """Run one statement."""
        with self.connection.enter_call():
            return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> Self:
        """Run one statement for many sets of values."""
        with self.connection.enter_call():
            return super().executemany(*arguments)

    def executescript(self, *arguments: Any) -> sqlite3.Cursor:
        """Run many statements."""
        with self.connection.enter_call():
            return super().executescript(*arguments)

    def fetchone(self) -> Any:
        """The next row."""
        with self.connection.enter_call():
            return super().fetchone()

    def fetchmany(self, *arguments: Any, **options: Any) -> list[Any]:
        """The next rows."""
        with self.connection.enter_call():
            return super().fetchmany(*arguments, **options)

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        with self.connection.enter_call():
            return super().fetchall()

    def __next__(self) -> Any:
        with self.connection.enter_call():
            return super().__next__()


class WriterConnection(sqlite3.Connection):
    """The one writing connection; unlike the driver's it can be told to refuse a call."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.call_lock = threading.RLock()
        # The only thread that may use it, once it was taken from all others.
        self.revoked_by: int | None = None

    def cursor(self, factory: Any = WriterCursor) -> Any:
        """A cursor whose calls take turns."""
        return super().cursor(factory)

    # The driver's own forms of these return a plain cursor, which takes no turns.

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Run one statement."""
        cursor: WriterCursor = self.cursor()
        return cursor.execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        """Run one statement for many sets of values."""
        cursor: WriterCursor = self.cursor()
        return cursor.executemany(*arguments)

    def executescript(self, *arguments: Any) -> sqlite3.Cursor:
        """Run many statements."""
        cursor: WriterCursor = self.cursor()
        return cursor.executescript(*arguments)

    def enter_call(self) -> AbstractContextManager[object]:
        """The lock that every call takes, unless the connection was taken away."""
        if self.revoked_by is not None and self.revoked_by != threading.get_ident():
            raise sqlite3.ProgrammingError(REVOKED)
        return self.call_lock
