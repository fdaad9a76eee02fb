"""Transactions on duly's own connections with code of the user's in them: begin and end."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg.pq import TransactionStatus

from duly.core.errors import Misuse
from duly.core.session import Opened, ended
from duly.jobs.invoke import Unfinished
from duly.stores.postgres.deadlines import ANSWER, PatientAsyncConnection, PatientConnection
from duly.stores.postgres.retry import give_up, lost
from duly.stores.revocable_connection import Loan
from duly.stores.shielding import surely

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from duly.core.session import Session


def refuse_unsound(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Refuse to commit what is not whole.

    After an error that somebody swallowed, PostgreSQL answers COMMIT with a quiet rollback.
    """
    if connection.pgconn.transaction_status != TransactionStatus.INTRANS:
        raise ended()


class Ending:
    """Stands around a transaction with a handler in it, and says whose an error is.

    A lost connection is nobody's. What is left to fail once the handlers are through is the COMMIT
    of what they wrote. Anything before that stays what it was.
    """

    handled = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, psycopg.Error) and lost(problem):
            give_up(problem)
        if isinstance(problem, psycopg.Error | Misuse) and self.handled:
            raise Unfinished from problem


@contextmanager
def unless_lost(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
) -> Iterator[None]:
    """Whatever the code inside made of it: a connection that is gone is told as such."""
    try:
        yield
    except Exception as problem:
        if connection.closed:
            raise psycopg.OperationalError("the connection was lost") from problem
        raise


def patient(
    connection: PatientConnection | PatientAsyncConnection, wait: timedelta
) -> Callable[[], None]:
    """Gives a connection its usual patience back, whatever time its caller has left."""
    return partial(setattr, connection, "patience", ANSWER + wait.total_seconds())


def opened_on(
    connection: PatientConnection | PatientAsyncConnection,
    session: Session,
    lasting: timedelta,
    loan: Loan,
) -> Opened:
    """A transaction with the user's code in it: patient with it, and revocable."""
    return Opened(session, connection, at_ease=patient(connection, lasting), revoke=loan.revoke)


def loan_of(connection: PatientConnection | PatientAsyncConnection) -> Loan:
    """One use of a connection; revoking it ends the statement that the code is waiting for.

    Where it waits for none, the server ends the transaction that is left idle.
    """
    return Loan(partial(cancelled, connection), exclusive=False)


def cancelled(connection: PatientConnection | PatientAsyncConnection) -> None:
    """Ask the server to cancel what it does for this connection."""
    with suppress(psycopg.Error):
        connection.cancel()


def beginning(lasting: timedelta) -> bytes:
    """BEGIN, and how long the code may leave the transaction idle, in one round trip."""
    bound = max(lasting // timedelta(milliseconds=1), 1)
    return f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {bound}".encode()


@contextmanager
def begun(connection: PatientConnection, lasting: timedelta | None) -> Iterator[None]:
    """A transaction, bounded if asked; committed at the end of the block."""
    if lasting is None:
        with connection.transaction():
            yield
        return
    connection.execute(beginning(lasting))
    try:
        yield
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise
    connection.commit()


@asynccontextmanager
async def begun_awaited(
    connection: PatientAsyncConnection, lasting: timedelta | None
) -> AsyncIterator[None]:
    """The same, awaited."""
    if lasting is None:
        async with connection.transaction():
            yield
        return
    await connection.execute(beginning(lasting))
    try:
        yield
    except BaseException:
        if not connection.closed:
            await surely(connection.rollback())
        raise
    await connection.commit()
