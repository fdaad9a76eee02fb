"""Watches asyncpg: a few methods of its connection and of a prepared statement."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from duly.tools.steps.watching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.tools.steps.watching import Steps

# Whatever a connection is asked for goes through one of these.
CALLS = ("execute", "_execute", "_executemany")
PREPARED = ("fetch", "fetchrow", "fetchval")


@contextmanager
def watch_asyncpg(steps: Steps) -> Iterator[None]:
    """Tell of the statements of every connection, those that are open already included."""
    with ExitStack() as stack:
        for name in CALLS:
            call = watched_call(steps, getattr(asyncpg.Connection, name))
            stack.enter_context(replaced(asyncpg.Connection, name, call))
        for name in PREPARED:
            call = watched_statement(steps, getattr(PreparedStatement, name))
            stack.enter_context(replaced(PreparedStatement, name, call))
        yield


def watched_call(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a connection whose first argument is the statement."""

    async def watched(self: Any, query: str, *values: Any, **options: Any) -> Any:
        with steps.step(query.strip().rstrip(";"), values, self):
            return await call(self, query, *values, **options)

    return watched


def watched_statement(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a prepared statement, which knows its text."""

    async def watched(self: Any, *values: Any, **options: Any) -> Any:
        with steps.step(self.get_query(), values, self._connection):
            return await call(self, *values, **options)

    return watched
