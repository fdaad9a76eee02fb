"""duly's own SQLite connection: WAL, full durability, and revocable from a handler that uses it.

Two threads in SQLite on one connection can freeze the process: one has SQLite's lock and waits for
Python's, in the function that guards the transaction, and the other waits the other way round. So
each call takes a lock of ours first. The thread that revokes the connection interrupts the call
that has the lock, waits for it, and refuses every later call.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from duly.core.errors import UnsafeStore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from pathlib import Path

OLDEST = (3, 37, 0)  # STRICT tables
# Seconds between two attempts to switch a file to WAL, which happens once in its life.
POLL = 0.01
REVOKED = "this transaction was taken away: its handler ran longer than it may, or lost its lease"


class WriterCursor(sqlite3.Cursor):
    """A cursor whose calls into SQLite take turns with the thread that revokes its connection."""

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
    """The one writing connection, which refuses every call once it is revoked."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.call_lock = threading.RLock()
        # The only thread that may use it, once it is revoked.
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
        """The lock that every call takes; refuse the call where the connection is revoked."""
        if self.revoked_by is not None and self.revoked_by != threading.get_ident():
            raise sqlite3.ProgrammingError(REVOKED)
        return self.call_lock


def connect(path: Path, *, durable: bool, wait: timedelta) -> WriterConnection:
    """Open the database file; ``durable`` makes each COMMIT reach the disk before it returns."""
    refuse_old_sqlite()
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, factory=WriterConnection
    )
    try:
        switch_to_wal(connection, time.monotonic() + wait.total_seconds())
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    except BaseException:
        connection.close()
        raise
    return connection


def switch_to_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Put the file into write-ahead mode, where it is not yet."""
    mode = None
    while mode is None:
        try:
            [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as problem:
            # Another connection writes, or switches at the same moment; SQLite does not wait.
            busy = problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(POLL)
    if mode != "wal":
        raise UnsafeStore(
            f"SQLite cannot use its write-ahead log here (journal mode is {mode}): "
            "put the database on a local disk"
        )


def refuse_old_sqlite() -> None:
    """Refuse a SQLite without STRICT tables and RETURNING."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise UnsafeStore(
            f"SQLite {sqlite3.sqlite_version} is too old: duly needs "
            f"{'.'.join(map(str, OLDEST))} or newer"
        )
