"""SQLite's errors as duly's, each with what to do about it."""

from __future__ import annotations

import sqlite3

from duly.core.errors import (
    DulyError,
    InProgress,
    SchemaMismatch,
    StaleSnapshot,
    StoreRefused,
    StoreUnavailable,
)
from duly.core.session import ended_transaction_error

BUSY, LOCKED = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED


class SqliteErrorTranslator:
    """Turns SQLite's errors into ones that say what to do; leaves the rest as they are.

    Not a generator: it surrounds statements that take hardly longer than one.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, sqlite3.OperationalError):
            raise_known(problem)


# The context in which errors of the driver become duly's; it has no state, so there is one.
translate_errors = SqliteErrorTranslator()


def raise_known(problem: sqlite3.OperationalError) -> None:
    """Raise the duly error for an SQLite error that has one; else do nothing."""
    known = duly_error_for(problem)
    if known is not None:
        raise known from problem


def duly_error_for(problem: sqlite3.OperationalError) -> DulyError | None:
    """The duly error for an SQLite error that has one."""
    code = getattr(problem, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return StaleSnapshot(
            "this transaction read before another connection wrote, so SQLite does not let it "
            "write: start it with BEGIN IMMEDIATE, roll back and run it again"
        )
    if code & 0xFF in (BUSY, LOCKED):
        return InProgress(
            "another connection holds SQLite's only write lock: try again, and keep write "
            "transactions short"
        )
    if str(problem).startswith("no such savepoint"):
        return ended_transaction_error()
    if str(problem).startswith(("no such table", "no such column", "table ")):
        return SchemaMismatch(
            f"duly's tables are not in this database ({problem}): run "
            "`duly migrate sqlite:///FILE` once, or open it with duly.store(...), and check "
            "prefix= if you set one"
        )
    return None


def store_error(problem: sqlite3.DatabaseError) -> DulyError:
    """The duly error for any error of duly's own connection."""
    if isinstance(problem, sqlite3.OperationalError):
        return duly_error_for(problem) or unavailable_error(problem)
    # A corrupt file is a plain DatabaseError; its other subclasses are about the statement.
    return (
        unavailable_error(problem)
        if type(problem) is sqlite3.DatabaseError
        else refused_error(problem)
    )


def refused_error(problem: sqlite3.Error) -> StoreRefused:
    """The error of a database that works and refuses this statement."""
    return StoreRefused(f"SQLite refused the statement: {problem}. Nothing was written")


def unavailable_error(problem: sqlite3.Error) -> StoreUnavailable:
    """The error of a database file that cannot be opened, read or written."""
    return StoreUnavailable(
        f"SQLite could not use the database file: {problem}. Nothing was acknowledged; check the "
        "path, its permissions and the free space"
    )
