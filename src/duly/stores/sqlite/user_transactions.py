"""Transactions on the writing connection: how they begin and end, also with a handler in them."""

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

# Seconds for the call of a thread whose connection is taken away to end.
OBEYING = 2.0
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
    """Take the write lock now: a transaction that reads first could not be sure to get it."""
    with translate_errors():
        connection.execute(BEGIN)


class TransactionGuard:
    """While a handler has the connection, SQLite itself refuses to end the transaction.

    But not to the thread that takes it away. What a guard allows can change; setting another one
    while a thread prepares a statement is not safe.
    """

    trusted_thread: int | None = None

    def __call__(self, action: int, *_: object) -> int:
        """Whether a statement may be run: any but BEGIN, COMMIT and ROLLBACK."""
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
    """One use of the connection by a handler, which can be ended from outside."""

    def revoke() -> None:
        writer.revoke(connection, guard)
        after_revoke()

    return RevocableConnection(revoke, exclusive=True)


def revoke_and_roll_back(connection: WriterConnection) -> bool:
    """Refuse every call of others on a connection, and roll it back; False if one does not end.

    It is made unable to write as well, for whoever has a way around our cursors.
    """
    connection.revoked_by = threading.get_ident()
    until = time.monotonic() + OBEYING
    while time.monotonic() < until:
        if not connection.call_lock.acquire(timeout=0.02):
            connection.interrupt()
            continue
        try:
            # An interruption that nobody felt would hit what is prepared next. This is prepared
            # already; to run it ends the interruption, although it is refused.
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
    """Make it last; refuse where somebody else has ended the transaction."""
    if not connection.in_transaction:
        raise ended_transaction_error()
    with translate_errors():
        connection.execute("COMMIT")


def commit_after_handler(connection: sqlite3.Connection) -> None:
    """COMMIT what handlers wrote, if it is whole; a deferred constraint may still refuse it."""
    try:
        commit(connection)
    except (sqlite3.IntegrityError, UsageError) as problem:
        raise Unfinished from problem


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo what is open, if anything is; a connection that somebody closed has nothing open."""
    with suppress(sqlite3.ProgrammingError):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
