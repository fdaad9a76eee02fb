"""Begin and end handlers' transactions on duly's own connections."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus

from duly.core.session import OpenedTransaction, ended_transaction_error
from duly.jobs.invoke import Unfinished
from duly.stores.postgres.deadlines import ANSWER, DeadlineAsyncConnection, DeadlineConnection
from duly.stores.postgres.retry import is_connection_lost, raise_store_error
from duly.stores.shielding import shield_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from duly.core.errors import UsageError
    from duly.core.session import Session
    from duly.stores.revocable_connection import RevocableConnection


def refuse_unsound(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Refuse to commit a failed transaction.

    After an error that the handler swallowed, PostgreSQL answers COMMIT with a silent rollback.
    """
    if connection.pgconn.transaction_status != TransactionStatus.INTRANS:
        raise ended_transaction_error()


def raise_store_or_commit_error(problem: psycopg.Error | UsageError, *, handler_done: bool) -> None:
    """Raise the error of a transaction with a handler in it, unless it is the handler's own.

    A lost connection becomes `StoreUnavailable`. Once the handlers are done, only the COMMIT of
    what they wrote can fail: that becomes `Unfinished`. Other errors stay as they are.
    """
    if isinstance(problem, psycopg.Error) and is_connection_lost(problem):
        raise_store_error(problem)
    if handler_done:
        raise Unfinished from problem


def transaction_on(
    connection: DeadlineConnection | DeadlineAsyncConnection,
    session: Session,
    lasting: timedelta,
    revocable: RevocableConnection,
) -> OpenedTransaction:
    """A handler's transaction: with its usual answer timeout, and revocable."""
    usual = ANSWER + lasting.total_seconds()
    return OpenedTransaction(
        session,
        connection,
        restore_timeouts=partial(setattr, connection, "answer_timeout", usual),
        revoke=revocable.revoke,
        revocation=revocable,
    )


def cancel_statement(connection: DeadlineConnection | DeadlineAsyncConnection) -> None:
    """Ask the server to cancel what it does for this connection: that is how it is revoked.

    Where it does nothing at this moment, the handler's next statement is refused, and the server
    ends the transaction that is left idle.
    """
    with suppress(psycopg.Error):
        connection.cancel()


def begin_statement(lasting: timedelta) -> bytes:
    """BEGIN, and how long the handler may leave the transaction idle, in one round trip."""
    bound = max(lasting // timedelta(milliseconds=1), 1)
    return f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {bound}".encode()


@contextmanager
def bounded_transaction(
    connection: DeadlineConnection, lasting: timedelta | None
) -> Iterator[None]:
    """A transaction, bounded if asked; committed at the end of the block."""
    if lasting is None:
        with connection.transaction():
            yield
        return
    connection.execute(begin_statement(lasting))
    try:
        yield
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise
    connection.commit()


@asynccontextmanager
async def bounded_transaction_async(
    connection: DeadlineAsyncConnection, lasting: timedelta | None
) -> AsyncIterator[None]:
    """An async transaction, bounded if asked; committed at the end of the block."""
    if lasting is None:
        async with connection.transaction():
            yield
        return
    await connection.execute(begin_statement(lasting))
    try:
        yield
    except BaseException:
        if not connection.closed:
            await shield_to_end(connection.rollback())
        raise
    await connection.commit()
