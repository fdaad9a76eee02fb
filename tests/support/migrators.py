"""Migrators that die at a chosen statement, by an error or by a real SIGKILL.

Run as a program it forks one child for each order it reads, and each child kills itself.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
import pytest

import duly
from duly.core.session import Row, Value
from duly.stores.postgres import store as postgres_store
from duly.stores.postgres.psycopg_adapters import PsycopgAdapter as PostgresWire
from duly.stores.postgres.session import Values
from duly.stores.sql import migrations
from duly.stores.sql.migrations import Migration
from duly.stores.sql.placeholders import Prepared
from duly.stores.sqlite import writer as sqlite_writer
from duly.stores.sqlite.adapters import Sqlite3Adapter as SqliteWire

# Steps before and after each statement are numbered on: statement n has 2n before, 2n + 1 after.
Order = tuple[str, str, int]

LATER = Migration(
    8,
    "0008_later",
    """
    -- A later version's migration, so that there is something between two of them.
    ALTER TABLE {versions} ADD COLUMN remark text CHECK (remark <> 'a;b');
    CREATE INDEX {prefix}versions_remark ON {versions} (remark);
    """,
)


class Crashed(Exception):
    """What the injected failure raises."""


class Trap:
    """Counts the steps of a migrator and springs at one of them."""

    def __init__(self, at: int | None, spring: Callable[[], NoReturn]) -> None:
        self.steps = 0
        self._at = at
        self._spring = spring

    def step(self) -> None:
        """Come to the next point between two statements."""
        self.steps += 1
        if self._at == self.steps - 1:
            self._spring()


def crash() -> NoReturn:
    """Fail as a program fails."""
    raise Crashed


def die() -> NoReturn:
    """End as kill -9 ends: no handler, no cleaning up."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


@contextmanager
def trapped(trap: Trap) -> Iterator[None]:
    """Let every statement of a migrator pass the trap, in both stores."""

    class TrappedPostgres(PostgresWire):
        async def fetch(self, statement: Prepared, values: Values) -> Sequence[Row]:
            trap.step()
            rows = await super().fetch(statement, values)
            trap.step()
            return rows

        async def execute_raw(self, text: str) -> None:
            trap.step()
            await super().plain(text)
            trap.step()

    class TrappedSqlite(SqliteWire):
        async def fetch(self, text: str, values: Mapping[str, Value]) -> list[Row]:
            trap.step()
            rows = await super().fetch(text, values)
            trap.step()
            return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_store, "PsycopgAdapter", TrappedPostgres)
        patch.setattr(sqlite_writer, "Sqlite3Adapter", TrappedSqlite)
        yield


@contextmanager
def later_migration(*more: Migration) -> Iterator[None]:
    """A duly that knows one more migration than the real one, or those that are given."""
    real = migrations.migrations
    later = more or (LATER,)
    assert later[0].number == real("postgres")[-1].number + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda dialect: (*real(dialect), *later))
        yield


def growing(number: int, oldest_code: int) -> Migration:
    """A migration that adds a column, and says from which version on code may run with it."""
    return Migration(
        number,
        f"{number:04}_growing",
        f"-- oldest code: {oldest_code}\nALTER TABLE {{events}} ADD COLUMN of_{number} text;",
    )


@contextmanager
def earlier_duly(version: int) -> Iterator[None]:
    """A duly that knows only the first migrations, as an older release did."""
    real = migrations.migrations
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda dialect: real(dialect)[:version])
        yield


def migrated(url: str, prefix: str) -> list[str]:
    """Migrate, and leave nothing open."""
    store = duly.store(url, prefix=prefix)
    try:
        return store.migrate()
    finally:
        store.close()


def wait_for_waiters(holder: psycopg.Connection, count: int) -> None:
    """Until so many others stand before a lock that this open transaction holds."""
    deadline = time.monotonic() + 30
    query = (
        "SELECT count(DISTINCT pid) FROM pg_locks"
        " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    )
    while holder.execute(query).fetchone() != (count,):
        assert time.monotonic() < deadline, "they do not come"
        time.sleep(0.01)


def steps_of(url: str, prefix: str) -> int:
    """How many points there are to die at: counted in a run that nothing happens to."""
    trap = Trap(None, crash)
    with later_migration(), trapped(trap):
        migrated(url, prefix)
    return trap.steps


def killed(order: Order) -> int:
    """Migrate in a forked child that dies at its step; return the signal that ended it."""
    url, prefix, step = order
    child = os.fork()
    if child == 0:
        with later_migration(), trapped(Trap(step, die)):
            migrated(url, prefix)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status)


def main() -> None:
    """Carry out the orders on standard input, and answer with the signals."""
    orders: list[Any] = json.load(sys.stdin)
    print(json.dumps([killed((url, prefix, step)) for url, prefix, step in orders]))


if __name__ == "__main__":
    main()
