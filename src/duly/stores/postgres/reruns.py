"""Whether a transaction of duly's own may be run again after an error.

Never the last statement alone, and never the COMMIT: the whole operation runs again on a new
connection, with the token of its first run, and recognises its own row if that run had committed.
"""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolTimeout

from duly._kernel.errors import DulyError, StoreUnavailable
from duly.stores.postgres.errors import RERUN

RUNS = 3
# 08: connection failures. 57P0x: the server is shutting down, crashed or starting up.
LOST = ("08", "57P")


def lost(problem: Exception) -> bool:
    """Whether the connection went away, so that nobody knows how the transaction ended."""
    if not isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return problem.sqlstate is None or problem.sqlstate.startswith(LOST)


def may_run_again(problem: Exception) -> bool:
    """Whether a second run can end differently."""
    if isinstance(problem, PoolTimeout):
        return False
    return lost(problem) or getattr(problem, "sqlstate", None) in RERUN


def given_up(problem: Exception) -> DulyError | None:
    """The error to raise when no run is left; None where the error speaks for itself."""
    if lost(problem):
        return StoreUnavailable(
            f"PostgreSQL could not be reached: {first_line(problem)}. Nothing may be acknowledged; "
            "answer 503 and let the sender retry"
        )
    if getattr(problem, "sqlstate", None) in RERUN:
        return StoreUnavailable(
            f"PostgreSQL aborted the transaction {RUNS} times: {first_line(problem)}. Try again"
        )
    return None


def first_line(problem: Exception) -> str:
    """The first line of a driver's message; the rest repeats the statement."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]
