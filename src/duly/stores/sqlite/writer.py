"""The one connection through which a process writes to one SQLite file.

SQLite has one write lock. Threads of this process queue for it in order, on a lock of ours; SQLite
itself waits for other processes.

No connection may be open across a fork, not even unused: SQLite's bookkeeping would tell the child
that it holds locks which the kernel gave to its parent only, and a third process would then remove
the log that the child writes to. So all are closed before a fork and opened again when next used.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from duly.core.errors import InProgress, UsageError
from duly.core.onestep import finish
from duly.stores.sql.migrations import apply_next, latest_version, refuse_newer, schema_version
from duly.stores.sql.statements import statements
from duly.stores.sqlite.adapters import Sqlite3Adapter
from duly.stores.sqlite.connection import connect
from duly.stores.sqlite.errors import store_error, unavailable_error
from duly.stores.sqlite.session import SqliteSession, milliseconds
from duly.stores.sqlite.user_transactions import revoke_and_roll_back, transaction

if TYPE_CHECKING:
    from pathlib import Path

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Operation, Session
    from duly.stores.sqlite.connection import WriterConnection
    from duly.stores.sqlite.session import SqliteAdapter
    from duly.stores.sqlite.user_transactions import TransactionGuard

T = TypeVar("T")

# Another process may be creating the same database; that takes milliseconds, not seconds.
OPENING = timedelta(seconds=30)
# Seconds: longer than any transaction of duly's own; a handler may take longer.
FORKING_WAIT = 3.0


class Writer:
    """The one connection through which this process writes to one file."""

    def __init__(self, path: Path, names: Names, clock: Clock | None, *, durable: bool) -> None:
        if names.schema is not None:
            raise UsageError("schema= is for PostgreSQL: on SQLite use prefix= or another file")
        self._path = path
        self._statements = statements("sqlite", names, "named")
        self._durable = durable
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: WriterConnection | None = None
        self._process = 0
        self._busy_timeout: timedelta | None = None
        self._applied: list[str] = []
        self._holder_thread: int | None = None
        self._held_connection: WriterConnection | None = None
        WRITERS.add(self)

    def hold(self, wait: timedelta) -> HeldWriter:
        """The connection for a block, one caller at a time; after ``wait`` `InProgress`."""
        return HeldWriter(self, wait)

    def acquire_connection(self, wait: timedelta) -> WriterConnection:
        """The connection, until it is released."""
        left = self._acquire_lock(wait)
        try:
            connection = self._open_if_needed(left)
            if left is not self._busy_timeout:
                self._set_busy_timeout(connection, left)
            self._holder_thread, self._held_connection = threading.get_ident(), connection
        except sqlite3.OperationalError as problem:
            self._lock.release()
            raise store_error(problem) from problem
        except sqlite3.DatabaseError as problem:
            self._lock.release()
            raise unavailable_error(problem) from problem
        except BaseException:
            self._lock.release()
            raise
        return connection

    def release_connection(self, connection: WriterConnection) -> None:
        """Let the next thread have it, unless the connection was revoked; from any thread."""
        if self._held_connection is connection:
            self._holder_thread = self._held_connection = None
            self._discard_unended(connection)
            self._lock.release()

    def _discard_unended(self, connection: WriterConnection) -> None:
        """Close a connection whose ROLLBACK failed: its transaction would keep the write lock."""
        try:
            if connection.in_transaction and self._connection is connection:
                self._connection = None
                connection.close()  # which rolls back
        except sqlite3.Error:
            return

    def release_from_handler(self, connection: WriterConnection) -> None:
        """Release a handler's connection, and close it where it was revoked.

        That includes one whose revocation timed out: it refuses every call, and may be in the
        middle of a statement.
        """
        try:
            if connection.revoked_by is not None:
                if self._connection is connection:
                    self._connection = None
                connection.close()
        finally:  # the next thread must get its turn in any case
            self.release_connection(connection)

    def revoke(self, connection: WriterConnection, guard: TransactionGuard) -> None:
        """Take the connection from a handler that does not return, and let the next thread in.

        Closing it would free what the handler's thread may be using. So it is made read-only,
        rolled back, and left to that thread; the next one gets a new connection.
        """
        if self._held_connection is not connection:
            return
        guard.trusted_thread = threading.get_ident()
        if not revoke_and_roll_back(connection):
            return  # a call that does not end keeps the lock as long as it lasts
        if self._connection is connection:
            self._connection = None
        self.release_connection(connection)

    def _acquire_lock(self, wait: timedelta) -> timedelta:
        """Wait for the threads before this one, and return how much of the wait is left."""
        if self._lock.acquire(blocking=False):
            return wait
        begun = time.monotonic()
        if not self._lock.acquire(timeout=wait.total_seconds()):
            raise InProgress("other threads of this process keep SQLite's writer busy: try again")
        return max(wait - timedelta(seconds=time.monotonic() - begun), timedelta(0))

    def session(self, connection: sqlite3.Connection) -> Session:
        """A session over the connection, in a transaction."""
        return self.session_with_adapter(Sqlite3Adapter(connection))

    def autocommit_session(self, connection: sqlite3.Connection) -> Session:
        """A session outside a transaction: a read ends with its statement, and holds nothing."""
        adapter = Sqlite3Adapter(connection)
        return SqliteSession(adapter, self._statements, self._clock, can_look_first=True)

    def session_with_adapter(self, adapter: SqliteAdapter) -> Session:
        """A session over an adapter to the connection, in a transaction."""
        return SqliteSession(adapter, self._statements, self._clock)

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def close_for_fork(self) -> bool:
        """Close before a fork and keep the lock; False where the holder does not release it.

        A handler that forks holds the connection itself, and cannot be waited for.
        """
        own = self._holder_thread == threading.get_ident()
        if not self._lock.acquire(timeout=0 if own else FORKING_WAIT):
            return False
        self._close()
        return True

    def resume_after_fork(self) -> None:
        """Go on after a fork, in the parent as in the child."""
        self._lock.release()

    def _set_busy_timeout(self, connection: WriterConnection, wait: timedelta) -> None:
        if wait != self._busy_timeout:
            connection.execute(f"PRAGMA busy_timeout = {milliseconds(wait)}")
            self._busy_timeout = wait

    def _open_if_needed(self, wait: timedelta) -> WriterConnection:
        """Open at the first use, and again in a forked child: a connection survives no fork."""
        if self._connection is None or self._process != os.getpid():
            connection = connect(self._path, durable=self._durable, wait=wait)
            self._busy_timeout = None
            try:
                self._applied += self._migrate(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._process = connection, os.getpid()
        return self._connection

    def migrate(self) -> list[str]:
        """Open the file; return the migrations that opening applied, to the first caller."""
        with self.hold(OPENING):
            applied, self._applied = self._applied, []
            return applied

    def run_read_only(self, operation: Operation[T]) -> T:
        """Read the file without creating or changing anything."""
        # A file that is not there yet reads as a database without tables. Not mode=ro: such a
        # connection leaves the log's files behind, which may then belong to the wrong user.
        there = f"{self._path.absolute().as_uri()}?mode=rw" if self._path.exists() else ":memory:"
        try:
            connection = sqlite3.connect(there, uri=True)
        except sqlite3.Error as problem:
            raise unavailable_error(problem) from problem
        try:
            connection.execute("PRAGMA query_only = ON")
            return finish(operation(self.session(connection)))
        except sqlite3.Error as problem:
            raise unavailable_error(problem) from problem
        finally:
            connection.close()

    def _migrate(self, connection: WriterConnection) -> list[str]:
        """On SQLite opening migrates: there is no operator between the library and its file."""
        session = self.session(connection)
        self._set_busy_timeout(connection, OPENING)
        applied: list[str] = []
        version = finish(schema_version(session))
        refuse_newer(version, "sqlite")
        if version.migrated_to >= latest_version("sqlite"):
            return applied  # the usual case, without asking for the write lock
        while True:
            with transaction(connection):
                name = finish(apply_next(session))
            if name is None:
                return applied
            applied.append(name)


class HeldWriter:
    """One use of the connection, for the block of a ``with``; errors leave it as duly's.

    Not a generator: it surrounds statements that take hardly longer than one.
    """

    __slots__ = ("_connection", "_wait", "_writer")

    def __init__(self, writer: Writer, wait: timedelta) -> None:
        self._writer = writer
        self._wait = wait
        self._connection: WriterConnection

    def __enter__(self) -> WriterConnection:
        self._connection = self._writer.acquire_connection(self._wait)
        return self._connection

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        self._writer.release_connection(self._connection)
        if isinstance(problem, sqlite3.DatabaseError):
            raise store_error(problem) from problem


WRITERS: WeakSet[Writer] = WeakSet()
FORKING = threading.Lock()
HELD_FOR_FORK: list[Writer] = []


def before_fork() -> None:
    """Close every connection of this process; see the top of this module."""
    FORKING.acquire()
    HELD_FOR_FORK.extend(writer for writer in list(WRITERS) if writer.close_for_fork())


def after_fork() -> None:
    """Let the writers go on."""
    while HELD_FOR_FORK:
        HELD_FOR_FORK.pop().resume_after_fork()
    FORKING.release()


os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)
