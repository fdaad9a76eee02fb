"""Watches asyncpg: a few methods of its connection and of a prepared statement."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.cursor import BaseCursor
from asyncpg.prepared_stmt import PreparedStatement

from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.prove.steps.watching import Steps

# Every request of a connection goes through one of these.
CALLS = ("execute", "_execute", "_executemany", "_copy_in", "_copy_out")
PREPARED = ("fetch", "fetchrow", "fetchval", "fetchmany", "executemany")
FETCHES = ("_bind_exec", "_exec")


@contextmanager
def watch_asyncpg(steps: Steps) -> Iterator[None]:
    """Tell of the statements of every connection, those that are open already included."""
    with ExitStack() as stack:
        for name in CALLS:
            call = watched_call(steps, getattr(asyncpg.Connection, name))
            stack.enter_context(replace_attribute(asyncpg.Connection, name, call))
        for name in filter(partial(hasattr, PreparedStatement), PREPARED):
            call = watched_statement(steps, getattr(PreparedStatement, name))
            stack.enter_context(replace_attribute(PreparedStatement, name, call))
        for name in FETCHES:
            call = watched_fetch(steps, getattr(BaseCursor, name))
            stack.enter_context(replace_attribute(BaseCursor, name, call))
        copy = watched_copy(steps, asyncpg.Connection.copy_records_to_table)
        stack.enter_context(replace_attribute(asyncpg.Connection, "copy_records_to_table", copy))
        yield


def watched_call(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a connection whose first argument is the statement."""

    async def run_watched(self: Any, query: str, *values: Any, **options: Any) -> Any:
        with steps.step(query.strip().rstrip(";"), values, self):
            return await call(self, query, *values, **options)

    return run_watched


def watched_statement(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a prepared statement, which knows its text."""

    async def run_watched(self: Any, *values: Any, **options: Any) -> Any:
        with steps.step(self.get_query(), values, self._connection):
            return await call(self, *values, **options)

    return run_watched


def watched_fetch(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a cursor by which rows come; its statement is run as they are asked for."""

    async def run_watched(self: Any, *values: Any) -> Any:
        with steps.step(self._query, (), self._connection):
            return await call(self, *values)

    return run_watched


def watched_copy(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """The one COPY whose statement asyncpg builds itself, so it is recorded in short."""

    async def run_watched(
        self: Any, table_name: str, *, schema_name: Any = None, **options: Any
    ) -> Any:
        table = table_name if schema_name is None else f"{schema_name}.{table_name}"
        with steps.step(f"COPY {table} FROM STDIN", (), self):
            return await call(self, table_name, schema_name=schema_name, **options)

    return run_watched
