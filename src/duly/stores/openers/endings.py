"""How a handler's transaction in an ORM may end: committed, or an error that says whose it is.

Work and claim are acknowledged together, so nothing may be committed that is not whole. PostgreSQL
answers COMMIT in a failed transaction with a quiet rollback, and ORMs have calls that end a
transaction inside its own block; both are looked for before the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from duly._kernel.errors import StoreUnavailable
from duly._kernel.session import ended
from duly.jobs.running import HandlerFailed, Unfinished
from duly.stores.drivers import find_driver, type_names

if TYPE_CHECKING:
    from collections.abc import Iterator

# 08: connection failures. 57P0x: the server is shutting down, crashed or starting up.
LOST = ("08", "57P")
# What only the opening of a transaction can raise: nothing of the user's has run by then.
UNREACHED = frozenset({"builtins.OSError", "sqlalchemy.TimeoutError"})


class Ending:
    """Stands around a transaction; ``handled`` is set once the code inside it is through."""

    def __init__(self) -> None:
        self.handled = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if not isinstance(problem, Exception):
            return
        if lost(problem):
            raise StoreUnavailable(
                "the database of begin= could not be reached, or went away: nothing may be "
                "acknowledged"
            ) from problem
        if self.handled and not isinstance(problem, HandlerFailed):
            raise Unfinished from problem


async def refuse_unsound(connection: Any) -> None:
    """Refuse to commit on a driver's connection that has nothing whole to commit."""
    driver = find_driver(connection)
    if driver is None:  # no session could be joined to it either
        raise ended()
    wire = driver.wire(connection)
    if driver.dialect == "sqlite":
        sound = bool(wire.in_transaction())
    elif driver.style == "pyformat":
        from psycopg.pq import TransactionStatus

        sound = connection.info.transaction_status == TransactionStatus.INTRANS
    else:  # asyncpg tells a failed transaction from a good one only by a statement
        sound = bool(connection.is_in_transaction())
        await wire.plain("SELECT 1")
    if not sound:
        raise ended()


def lost(problem: BaseException) -> bool:
    """Whether the database went away, as far as the errors behind this one say."""
    if UNREACHED.intersection(type_names(problem)):
        return True
    return any(
        getattr(one, "connection_invalidated", False) is True or disconnected(one)
        for one in causes(problem)
    )


def causes(problem: BaseException) -> Iterator[BaseException]:
    """An error and those it was raised from, the driver's own last."""
    found: BaseException | None = problem
    while found is not None:
        yield found
        found = found.__cause__


def disconnected(problem: BaseException) -> bool:
    """Whether a driver says that its connection is gone."""
    sqlstate = getattr(problem, "sqlstate", None)
    if isinstance(sqlstate, str):
        return sqlstate.startswith(LOST)
    names = type_names(problem)
    if "asyncpg.InterfaceError" in names:  # its mistakes of use are of this type, too
        return "closed" in str(problem)
    return "psycopg.OperationalError" in names
