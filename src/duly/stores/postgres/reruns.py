"""Whether a transaction of duly's own may be run again after an error.

Never the last statement alone, and never the COMMIT: the whole operation runs again on a new
connection, with the token of its first run, and recognises its own row if that run had committed.
"""

from __future__ import annotations

from typing import NoReturn

import psycopg
from psycopg_pool import PoolTimeout

from duly._kernel.errors import StoreUnavailable
from duly.stores.postgres.errors import RERUN
from duly.stores.postgres.patience import NoAnswer

RUNS = 3
# Each has cost the caller seconds.
RUNS_WITHOUT_ANSWER = 2
# 08: connection failures. 57P0x: the server is shutting down, crashed or starting up.
LOST = ("08", "57P")


def lost(problem: Exception) -> bool:
    """Whether the connection went away, so that nobody knows how the transaction ended."""
    if not isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return problem.sqlstate is None or problem.sqlstate.startswith(LOST)


def may_run_again(problem: Exception, runs: int) -> bool:
    """Whether another run can end differently, after this many."""
    if isinstance(problem, PoolTimeout):
        return False
    if isinstance(problem, NoAnswer):
        return runs < RUNS_WITHOUT_ANSWER
    return runs < RUNS and (lost(problem) or getattr(problem, "sqlstate", None) in RERUN)


def died(problem: Exception) -> bool:
    """Whether other connections may have died with this one. A silent server is not asked again."""
    return lost(problem) and not isinstance(problem, NoAnswer)


def give_up(problem: Exception) -> NoReturn:
    """Raise what the caller is told when no run is left: in duly's words where there are any."""
    if lost(problem):
        raise StoreUnavailable(
            f"PostgreSQL could not be reached: {first_line(problem)}. Nothing may be acknowledged; "
            "answer 503 and let the sender retry"
        ) from problem
    if getattr(problem, "sqlstate", None) in RERUN:
        raise StoreUnavailable(
            f"PostgreSQL aborted the transaction {RUNS} times: {first_line(problem)}. Try again"
        ) from problem
    raise problem


def first_line(problem: Exception) -> str:
    """The first line of a driver's message; the rest repeats the statement."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]
