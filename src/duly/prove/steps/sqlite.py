"""Watches `sqlite3`, and with it aiosqlite, SQLAlchemy and Django, which all open through it.

Its classes are written in C and cannot be changed. So every connection is opened as a subclass of
what was asked for, and so is every cursor of it.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duly.prove.steps.blobs import WatchedBlob
from duly.prove.steps.scripts import as_a_script, statements_of
from duly.prove.steps.unfinished import (
    ending_connection,
    ending_cursor,
    finish_pending_rows,
    tell_finished,
    tell_when_over,
)
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.steps.watching import Steps

# Attributes of a connection which, set to this, end a transaction that is open.
COMMITTING = (("isolation_level", None), ("autocommit", True))


@contextmanager
def watch_sqlite(steps: Steps) -> Iterator[None]:
    """Open every connection inside the block as one that is watched."""
    connect = sqlite3.connect

    def connect_watched(*arguments: Any, **options: Any) -> Any:
        base = options.pop("factory", sqlite3.Connection)
        connection = connect(*arguments, factory=watched_connection(base), **options)
        connection.steps = steps
        return connection

    with ExitStack() as stack:
        # Two names of one function; each library uses one of them.
        for module in (sqlite3, sqlite3.dbapi2):
            stack.enter_context(replace_attribute(module, "connect", connect_watched))
        yield


class Backups:
    """Tells of copies as statements of their target, which is what they write to."""

    def backup(self, target: Any, **options: Any) -> None:
        """Copy this database over another."""
        with watch_step(target, ("BACKUP",)):
            super().backup(target, **options)  # type: ignore[misc]  # of the connection's class


@lru_cache
def watched_connection(base: Any) -> Any:
    """The same class of connection, but one that tells of its statements."""
    ended: Any = watched_endings(ending_connection(base))

    class Watched(Backups, ended):  # type: ignore[misc]  # the class that was asked for
        def cursor(self, factory: Any = None) -> Any:
            # The class has a default of its own; what it makes tells which.
            made: Any = type(super().cursor()) if factory is None else factory
            return super().cursor(watched_cursor(made))

        def execute(self, *arguments: Any) -> Any:
            with watch_step(self, arguments):
                return run_short_form(self, base, "execute", arguments)

        def executemany(self, *arguments: Any) -> Any:
            with watch_step(self, arguments):
                return run_short_form(self, base, "executemany", arguments)

        def executescript(self, *arguments: Any) -> Any:
            return self.cursor().executescript(*arguments)

        def blobopen(self, table: Any, column: Any, *rest: Any, **options: Any) -> Any:
            blob = super().blobopen(table, column, *rest, **options)
            return blob if self.steps is None else WatchedBlob(blob, self, table, column)

    return Watched


def watched_endings(base: Any) -> Any:
    """The same class of connection, but one that tells of the ends of its transactions."""

    class Watched(base):  # type: ignore[misc]  # the class that was asked for
        steps: Steps | None = None  # not yet known while it is being opened

        def __setattr__(self, name: str, value: Any) -> None:
            with watch_end(self, "COMMIT") if (name, value) in COMMITTING else nullcontext():
                super().__setattr__(name, value)

        def commit(self) -> None:
            with watch_end(self, "COMMIT"):
                super().commit()

        def rollback(self) -> None:
            with watch_end(self, "ROLLBACK"):
                super().rollback()

        def __exit__(self, kind: Any, *rest: Any) -> Any:
            with watch_end(self, "COMMIT" if kind is None else "ROLLBACK"):
                return super().__exit__(kind, *rest)

    return Watched


def run_short_form(connection: Any, base: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    """The cursor that a short form gives; what the driver's own makes could not be watched."""
    if getattr(base, name) is getattr(sqlite3.Connection, name):
        return getattr(connection.cursor(sqlite3.Cursor), name)(*arguments)
    return getattr(base, name)(connection, *arguments)


@lru_cache
def watched_cursor(base: Any) -> Any:
    """The same class of cursor, but one that tells of its statements."""

    class Watched(ending_cursor(base)):  # type: ignore[misc]  # the class that was asked for
        def execute(self, *arguments: Any) -> Any:
            finish_pending_rows(self.connection, super().execute)
            with watch_step(self.connection, arguments):
                return super().execute(*arguments)

        def executemany(self, *arguments: Any) -> Any:
            finish_pending_rows(self.connection, super().execute)
            with watch_step(self.connection, arguments):
                return super().executemany(*arguments)

        def executescript(self, *arguments: Any) -> Any:
            connection, script = self.connection, arguments[0] if arguments else None
            if connection.steps is None or not isinstance(script, str):
                return super().executescript(*arguments)
            with as_a_script(connection):
                for text in statements_of(script):
                    with watch_step(connection, (text,)):
                        run_to_end(base(connection), text)
            return self

    return Watched


def run_to_end(cursor: Any, text: str) -> None:
    """Run a statement to its end; a script looks at none of its rows."""
    cursor.row_factory = None
    cursor.execute(text)
    cursor.fetchall()


@contextmanager
def watch_step(connection: Any, arguments: tuple[Any, ...]) -> Iterator[None]:
    """Around one call with a statement."""
    if getattr(connection, "steps", None) is None:  # a target may have been opened before
        yield
        return
    tell_finished(connection)
    text, *values = arguments
    with connection.steps.step(
        str(text).strip(), values[0] if values else (), connection, tell_when_over
    ):
        yield


@contextmanager
def watch_end(connection: Any, text: str) -> Iterator[None]:
    """Around the end of a transaction; without one the call does nothing."""
    if connection.steps is None or not connection.in_transaction:
        yield
        return
    with connection.steps.step(text, (), connection):
        yield
