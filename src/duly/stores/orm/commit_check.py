"""Check how a handler's transaction in an ORM begins and ends.

Work and claim are acknowledged together, so a failed transaction must not pass for a committed one.
PostgreSQL answers COMMIT in a failed transaction with a silent rollback, and ORMs have calls that
end a transaction inside its own block; both are looked for before the commit.

And a commit is believed only if the driver's connection says so. It must be idle before BEGIN: on
one that other code left inside a transaction, asyncpg's "transaction" is a savepoint, and its
"commit" releases that. It must be idle again after COMMIT.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, Self

from duly.core.errors import StoreUnavailable
from duly.core.session import ended_transaction_error
from duly.jobs.invoke import HandlerFailed, Overdue, Unfinished
from duly.stores.join.drivers import find_driver, type_names

if TYPE_CHECKING:
    from collections.abc import Iterator

State = Literal["idle", "open", "failed", "gone"]
IN_TRANSACTION = ("open", "failed")
# By psycopg's TransactionStatus; a connection is "gone", too, while a statement runs on it.
PSYCOPG_STATES: dict[str, State] = {"IDLE": "idle", "INTRANS": "open", "INERROR": "failed"}
logger = logging.getLogger("duly")
# 08: connection failures. 57P0x: the server is shutting down, crashed or starting up.
LOST = ("08", "57P")
# Raised only while a transaction is opened, before the handler runs.
UNREACHED = frozenset({"builtins.OSError", "sqlalchemy.TimeoutError"})


class OrmErrorClassifier:
    """Surrounds a handler's transaction; ``handler_done`` is set once the handler has returned."""

    def __init__(self) -> None:
        self.handler_done = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if not isinstance(problem, Exception) or isinstance(problem, Overdue | StoreUnavailable):
            return
        if is_connection_lost(problem):
            raise StoreUnavailable(
                "the database of begin= could not be reached, or went away: nothing may be "
                "acknowledged"
            ) from problem
        if self.handler_done and not isinstance(problem, HandlerFailed):
            raise Unfinished from problem


def transaction_state(connection: Any) -> State:
    """Whether a driver's connection is in a transaction, by the server's last answer."""
    driver = find_driver(connection)
    try:
        if driver is None:
            return "gone"
        if driver.dialect == "sqlite":
            return "open" if driver.adapter(connection).in_transaction() else "idle"
        if driver.style == "pyformat":
            status: str = connection.info.transaction_status.name
            return PSYCOPG_STATES.get(status, "gone")
        if connection.is_closed():
            return "gone"
        return "open" if connection.is_in_transaction() else "idle"
    except Exception:  # drivers refuse the question on a closed connection, each in its own way
        return "gone"


def refuse_unseen_commit(connection: Any) -> None:
    """Refuse to believe a COMMIT after which the driver's connection is not idle."""
    if transaction_state(connection) != "idle":
        raise StoreUnavailable(
            "begin= reported a commit, but its connection is not idle after it, so the COMMIT was "
            "not seen: the connection was thrown away and nothing is acknowledged"
        )


def refuse_left_open(connection: Any) -> None:
    """Refuse a connection that other code left inside a transaction."""
    if transaction_state(connection) in IN_TRANSACTION:
        raise StoreUnavailable(
            "the pool of begin= handed out a connection that is inside a transaction of other "
            "code, so that COMMIT would end only a part of it: the connection was thrown away and "
            "nothing is acknowledged. Look for an engine that several event loops or threads use "
            "at once, a connection that is used after its block, or a listener that leaves a "
            "transaction open"
        )


def must_throw_away(connection: Any) -> bool:
    """Whether a connection must not serve other code; one left in a transaction is logged."""
    state = transaction_state(connection)
    if state in IN_TRANSACTION:
        logger.error(
            "a connection of begin= was still in a transaction after duly had ended its own, and "
            "was closed: other code would have worked in a transaction that never commits"
        )
    return state != "idle"


async def refuse_unsound(connection: Any) -> None:
    """Refuse to commit a failed or ended transaction of a driver's connection."""
    driver = find_driver(connection)
    if driver is not None and driver.style == "dollar":
        # asyncpg tells a failed transaction from a good one only by a statement.
        await driver.adapter(connection).plain("SELECT 1")
    if transaction_state(connection) != "open":
        raise ended_transaction_error()


def is_connection_lost(problem: BaseException) -> bool:
    """Whether the database was lost, by this error and those it was raised from."""
    if UNREACHED.intersection(type_names(problem)):
        return True
    return any(
        getattr(one, "connection_invalidated", False) is True or is_disconnect_error(one)
        for one in causes(problem)
    )


def causes(problem: BaseException) -> Iterator[BaseException]:
    """An error and those it was raised from, the driver's own last."""
    found: BaseException | None = problem
    while found is not None:
        yield found
        found = found.__cause__


def is_disconnect_error(problem: BaseException) -> bool:
    """Whether a driver says that its connection is gone."""
    sqlstate = getattr(problem, "sqlstate", None)
    if isinstance(sqlstate, str):
        return sqlstate.startswith(LOST)
    names = type_names(problem)
    if "asyncpg.InterfaceError" in names:  # raised for wrong use, too
        return "closed" in str(problem)
    return "psycopg.OperationalError" in names
