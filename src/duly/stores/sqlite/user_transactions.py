"""Begin, guard and end transactions on the writing connection, with or without a handler."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.core.session import ended_transaction_error
from duly.jobs.invoke import Unfinished
from duly.stores.revocable_connection import RevocableConnection
from duly.stores.sqlite.errors import translate_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.stores.sqlite.connection import WriterConnection
    from duly.stores.sqlite.writer import Writer

# Seconds for the running call of a thread whose connection is revoked to end.
REVOKE_SECONDS = 2.0
BEGIN = "BEGIN IMMEDIATE"


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK on any error at all."""
    begin(connection)
    try:
        yield
        commit(connection)
    except BaseException:
        roll_back(connection)
        raise


def begin(connection: sqlite3.Connection) -> None:
    """Begin with the write lock: a transaction that reads first may be refused it later."""
    with translate_errors:
        connection.execute(BEGIN)


class TransactionGuard:
    """Has SQLite refuse BEGIN, COMMIT and ROLLBACK while a handler has the connection.

    The thread that revokes the connection becomes trusted. Setting another guard instead, while a
    thread prepares a statement, is not safe.
    """

    trusted_thread: int | None = None

    def __call__(self, action: int, *_: object) -> int:
        """Allow a statement unless it begins or ends a transaction."""
        if action != sqlite3.SQLITE_TRANSACTION or threading.get_ident() == self.trusted_thread:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


@contextmanager
def guard_transaction(connection: sqlite3.Connection) -> Iterator[TransactionGuard]:
    """Guard the transaction of a handler."""
    guard = TransactionGuard()
    connection.set_authorizer(guard)
    try:
        yield guard
    finally:
        connection.set_authorizer(None)


def make_revocable(
    writer: Writer,
    connection: WriterConnection,
    guard: TransactionGuard,
    after_revoke: Callable[[], None] = lambda: None,
) -> RevocableConnection:
    """One use of the connection by a handler, which can be revoked from another thread."""

    def revoke() -> None:
        writer.revoke(connection, guard)
        after_revoke()

    return RevocableConnection(revoke, exclusive=True)


def revoke_and_roll_back(connection: WriterConnection) -> bool:
    """Refuse other threads' calls on a connection and roll it back; False if a call does not end.

    It is made read-only as well, for code that has a way around our cursors.
    """
    connection.revoked_by = threading.get_ident()
    until = time.monotonic() + REVOKE_SECONDS
    while time.monotonic() < until:
        if not connection.call_lock.acquire(timeout=0.02):
            connection.interrupt()
            continue
        try:
            # An interruption that hit no statement would hit the one prepared next. BEGIN is
            # prepared already; running it ends the interruption, although it is refused.
            with suppress(sqlite3.Error):
                connection.execute(BEGIN)
            connection.execute("PRAGMA query_only = ON")
            roll_back(connection)
        except (sqlite3.Error, SystemError):  # the latter is Python's own for an interruption
            continue
        else:
            return True
        finally:
            connection.call_lock.release()
    return False


def commit(connection: sqlite3.Connection) -> None:
    """COMMIT; refuse where other code has ended the transaction."""
    if not connection.in_transaction:
        raise ended_transaction_error()
    with translate_errors:
        connection.execute("COMMIT")


def commit_after_handler(connection: sqlite3.Connection) -> None:
    """COMMIT what handlers wrote, if it is whole; a deferred constraint may still refuse it."""
    try:
        commit(connection)
    except (sqlite3.IntegrityError, UsageError) as problem:
        raise Unfinished from problem


def roll_back(connection: sqlite3.Connection) -> None:
    """ROLLBACK where a transaction is open; a closed connection has none."""
    with suppress(sqlite3.ProgrammingError):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
