"""SQLite's errors in duly's words, with what to do about each."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly._kernel.errors import DulyError, Held, SchemaMismatch, StaleSnapshot, StoreUnavailable
from duly._kernel.session import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY, LOCKED = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED


@contextmanager
def translated() -> Iterator[None]:
    """Turn what SQLite says into an error that says what to do; leave the rest as it is."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        known = explain(problem)
        if known is None:
            raise
        raise known from problem


def explain(problem: sqlite3.OperationalError) -> DulyError | None:
    """The duly error for an SQLite error that has one."""
    code = getattr(problem, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return StaleSnapshot(
            "this transaction read before somebody else wrote, so SQLite will not let it write: "
            "start it with BEGIN IMMEDIATE, roll back and run it again"
        )
    if code & 0xFF in (BUSY, LOCKED):
        return Held(
            "another connection holds SQLite's only write lock: try again, and keep write "
            "transactions short"
        )
    if str(problem).startswith("no such savepoint"):
        return ended()
    if str(problem).startswith(("no such table", "no such column", "table ")):
        return SchemaMismatch(
            f"duly's tables are not in this database ({problem}): run "
            "`duly migrate sqlite:///FILE` once, or open it with duly.store(...), and check "
            "prefix= if you set one"
        )
    return None


def unavailable(problem: sqlite3.Error) -> StoreUnavailable:
    """The error of a database file that cannot be opened, read or written."""
    return StoreUnavailable(
        f"SQLite could not use the database file: {problem}. Nothing was acknowledged; check the "
        "path, its permissions and the free space"
    )
