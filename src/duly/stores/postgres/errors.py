"""PostgreSQL's errors in duly's words, by SQLSTATE, with what to do about each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly._kernel.errors import DulyError, Held, NotJoinable, SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_NOT_AVAILABLE = "55P03"
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
IN_FAILED_TRANSACTION = "25P02"
UNDEFINED_TABLE, UNDEFINED_COLUMN, INVALID_SCHEMA = "42P01", "42703", "3F000"

# The whole transaction may be run again after these; the last statement alone never.
RERUN = frozenset({SERIALIZATION_FAILURE, DEADLOCK})


@contextmanager
def translated() -> Iterator[None]:
    """Turn what PostgreSQL says into an error that says what to do; leave the rest as it is.

    Both drivers name the SQLSTATE ``sqlstate``, so neither has to be imported here.
    """
    try:
        yield
    except Exception as problem:
        known = explain(getattr(problem, "sqlstate", None), problem)
        if known is None:
            raise
        raise known from problem


def explain(sqlstate: str | None, problem: Exception) -> DulyError | None:
    """The duly error for an SQLSTATE that has one."""
    if sqlstate == LOCK_NOT_AVAILABLE:
        return Held(
            "another transaction holds this key and did not end within the wait: try again. If "
            "this was your own transaction and wait= was not given, roll it back first"
        )
    if sqlstate == IN_FAILED_TRANSACTION:
        return NotJoinable("this transaction has failed: roll it back, then run it again")
    if sqlstate in (UNDEFINED_TABLE, UNDEFINED_COLUMN, INVALID_SCHEMA):
        first_line = str(problem).splitlines()[0]
        return SchemaMismatch(
            f"duly's tables are not as this version needs them ({first_line}): run "
            "`duly migrate postgresql://...` and check prefix= and schema= if you set them"
        )
    return None
