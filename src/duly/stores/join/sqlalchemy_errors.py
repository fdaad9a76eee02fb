"""SQLAlchemy's refusals in duly's words, with what to do about each.

Its own messages may quote statements and their parameters, so they are only chained.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import (
    DBAPIError,
    InvalidRequestError,
    MissingGreenlet,
    PendingRollbackError,
    ResourceClosedError,
    UnboundExecutionError,
)

from duly.core.errors import NotJoinable, SyncAsyncMismatch, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_FAILED_TRANSACTION = "25P02"
FAILED = "this SQLAlchemy transaction has failed: roll it back, then run it again"
REASONS: dict[type[InvalidRequestError], tuple[type[UsageError], str]] = {
    MissingGreenlet: (
        SyncAsyncMismatch,
        "this SQLAlchemy object belongs to an async engine: pass the AsyncConnection or "
        "AsyncSession to the same verb of duly.aio, or call this one inside its run_sync()",
    ),
    PendingRollbackError: (NotJoinable, FAILED),
    ResourceClosedError: (NotJoinable, "this SQLAlchemy connection is closed: pass an open one"),
    UnboundExecutionError: (
        NotJoinable,
        "this SQLAlchemy session has a different engine for each class: pass the connection of "
        "the one that duly's tables are in, session.connection(bind_arguments={...})",
    ),
}


@contextmanager
def translate_sqlalchemy_errors() -> Iterator[None]:
    """Turn SQLAlchemy's refusal to begin or nest into an error that says what to do."""
    try:
        yield
    except InvalidRequestError as problem:
        for kind, (error, reason) in REASONS.items():
            if isinstance(problem, kind):
                raise error(reason) from problem
        raise
    except DBAPIError as problem:
        if getattr(problem.orig, "sqlstate", None) == IN_FAILED_TRANSACTION:
            raise NotJoinable(FAILED) from problem
        raise


@contextmanager
def translate_connection_errors() -> Iterator[None]:
    """Turn every refusal to hand out a connection into an error that says so."""
    try:
        with translate_sqlalchemy_errors():
            yield
    except InvalidRequestError as problem:
        raise NotJoinable(
            "SQLAlchemy has no open connection here: pass a connection that is open "
            "(`async with engine.connect() as connection:`), or a session that may begin"
        ) from problem
