"""Whether a transaction of duly's own may be run again after an error.

Never the last statement alone, and never the COMMIT: the whole operation runs again on a new
connection, with the token of its first run, and recognises its own row if that run had committed.
"""

from __future__ import annotations

from typing import NoReturn

import psycopg
from psycopg_pool import PoolTimeout

from duly.core.errors import FOR_RECEIVERS, InProgress, StoreRefused, StoreUnavailable
from duly.stores.postgres.deadlines import NoAnswer
from duly.stores.postgres.errors import RERUN

RUNS = 3
# Each costs the caller seconds.
RUNS_WITHOUT_ANSWER = 2
STATEMENT_TIMEOUT, READ_ONLY, NO_RIGHTS = "57014", "25006", "42501"
# 08: connection failures. 57P0x: the server is shutting down, crashed or starting up.
LOST = ("08", "57P")
# No fault of what was asked: disk, memory or connections are used up, files or memory are broken.
IN_TROUBLE = ("53", "57", "58", "XX")


def is_connection_lost(problem: Exception) -> bool:
    """Whether the connection was lost, so that it is unknown how the transaction ended."""
    if not isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return problem.sqlstate is None or problem.sqlstate.startswith(LOST)


def may_run_again(problem: Exception, runs: int, *, after_loss: bool = True) -> bool:
    """Whether another run, after this many, can end differently."""
    if isinstance(problem, PoolTimeout) or (not after_loss and is_connection_lost(problem)):
        return False
    if isinstance(problem, NoAnswer):
        return runs < RUNS_WITHOUT_ANSWER
    return runs < RUNS and (
        is_connection_lost(problem) or getattr(problem, "sqlstate", None) in RERUN
    )


def should_check_pool(problem: Exception) -> bool:
    """Whether other connections may have died with this one. A silent server is not asked again."""
    return is_connection_lost(problem) and not isinstance(problem, NoAnswer)


def raise_store_error(problem: psycopg.Error) -> NoReturn:
    """Raise duly's error for the caller once no run is left."""
    sqlstate = problem.sqlstate or ""
    kind = StoreUnavailable
    if is_connection_lost(problem):
        reason = "could not be reached"
    elif sqlstate in RERUN:
        reason = f"aborted the transaction {RUNS} times"
    elif sqlstate == STATEMENT_TIMEOUT:
        raise InProgress(
            "PostgreSQL's statement_timeout ended the wait for this key, or for the server: try "
            "again, and allow duly's role more time than its wait for a lock"
        ) from problem
    elif sqlstate == READ_ONLY:
        reason = "takes no writes here (a standby, or a read-only role)"
    elif sqlstate == NO_RIGHTS:
        reason = "does not let this role use duly's tables (grant it all rights on them)"
    elif sqlstate.startswith(IN_TROUBLE):
        reason = "cannot do it now"
    else:
        kind, reason = StoreRefused, "refused the statement"
    error = kind(f"PostgreSQL {reason}: {first_line(problem)}")
    error.add_note(FOR_RECEIVERS)
    raise error from problem


def first_line(problem: Exception) -> str:
    """The first line of a driver's message; the rest repeats the statement."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]
