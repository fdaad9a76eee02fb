"""The databases: made once, and put back to their beginning before every case."""

from __future__ import annotations

import os
import select
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

import duly
from duly.prove.steps.watching import INSIDE
from duly.stores.sql.statements import TABLES as DULY_TABLES
from verification.crash_matrix.shop import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every change of state of a job or a message, with its lease; the matrix's own eyes.
MOVES = (
    "CREATE TABLE moves (kind text, id text, before text, after text, old integer, new integer,"
    " token {bytes})"
)
WATCHED = {"job": "duly_jobs", "message": "duly_outbox"}


class Place(Protocol):
    """One database of a lane."""

    url: str

    def reset(self) -> None:
        """Back to the beginning: the tables are there, and empty but for duly's own facts."""

    def empty(self) -> None:
        """As if duly had never been there; for what makes the tables."""

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Run one statement apart and return its rows."""

    def answers(self) -> bool:
        """Whether the server is there, and whatever leads to it."""


class SqlitePlace:
    """A file, and a copy of it as it was."""

    def __init__(self, folder: Path) -> None:
        self._path, self._kept = folder / "case.db", folder / "kept.db"
        self.url = f"sqlite:///{self._path}"
        with duly.store(f"sqlite:///{self._kept}"):
            pass
        with closing(sqlite3.connect(self._kept, isolation_level=None)) as connection:
            for statement in (*TABLES, MOVES.format(bytes="blob"), *sqlite_triggers()):
                connection.execute(statement)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def reset(self) -> None:
        """Copy the kept file."""
        self._remove()
        shutil.copy(self._kept, self._path)

    def empty(self) -> None:
        """No duly, only the user's tables."""
        self._remove()
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            for statement in TABLES:
                connection.execute(statement)

    def _remove(self) -> None:
        for ending in ("", "-wal", "-shm"):
            Path(f"{self._path}{ending}").unlink(missing_ok=True)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own, which waits for nobody."""
        with unwatched(), closing(self._connected()) as connection:
            return connection.execute(text).fetchall()

    def answers(self) -> bool:
        """A file is always there."""
        return True

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, timeout=0.2)


class PostgresPlace:
    """A database whose tables are emptied; ``beside`` leads past a pooler."""

    def __init__(self, url: str, beside: str = "") -> None:
        self.url, self._beside = url, beside or url
        self._tables = ["effects", "totals", "moves"]
        self._tables += [f"duly_{name}" for name in DULY_TABLES if name != "meta"]
        self._whole = False
        self._kept: psycopg.Connection[Any] | None = None
        self._process = 0

    def _make(self) -> None:
        """Everything from nothing."""
        self.empty()
        store = duly.store(self._beside)
        store.migrate()
        store.close()
        for statement in (MOVES.format(bytes="bytea"), *postgres_triggers()):
            self.rows(statement)
        self._whole = True

    def reset(self) -> None:
        """Empty the tables, after whoever may still be connected."""
        if not self._whole:
            self._make()
        self.rows(HANG_UP)
        emptied = "; ".join(f"DELETE FROM {table}" for table in self._tables)
        self.rows(emptied)

    def empty(self) -> None:
        """Take duly's tables away."""
        self._whole = False
        self.rows(HANG_UP)
        self.rows("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        for statement in TABLES:
            self.rows(statement)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of this process, which duly does not know of."""
        with unwatched():
            cursor = self._connection().execute(text)
            return cursor.fetchall() if cursor.description else []

    def answers(self) -> bool:
        """Ask the server, and through the pooler if there is one."""
        try:
            self.rows("SELECT 1")
            if self.url != self._beside:
                with unwatched(), psycopg.connect(self.url, autocommit=True) as through:
                    through.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _connection(self) -> psycopg.Connection[Any]:
        """The one that is kept: opened anew after a fork, and where the server was struck down."""
        if self._process != os.getpid() or self._kept is None or not alive(self._kept):
            self._kept = psycopg.connect(self._beside, autocommit=True)
            self._process = os.getpid()
        return self._kept


@contextmanager
def unwatched() -> Iterator[None]:
    """The looks of the matrix itself are no steps of a flow, and nothing strikes them."""
    outer = INSIDE.set(True)
    try:
        yield
    finally:
        INSIDE.reset(outer)


def alive(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server is still at the other end."""
    if connection.closed:
        return False
    readable, _, _ = select.select([connection.fileno()], [], [], 0)
    return not readable  # nothing is said unasked but that it is over


HANG_UP = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def sqlite_triggers() -> list[str]:
    """One trigger for each watched table that writes down its moves."""
    return [
        f"CREATE TRIGGER moves_of_{kind} AFTER UPDATE ON {table}"
        " WHEN old.state <> new.state OR old.epoch <> new.epoch BEGIN"
        f" INSERT INTO moves VALUES ('{kind}', new.id, old.state, new.state, old.epoch, new.epoch,"
        " new.token); END"
        for kind, table in WATCHED.items()
    ]


def postgres_triggers() -> list[str]:
    """The same for PostgreSQL."""
    made = []
    for kind, table in WATCHED.items():
        made.append(
            f"CREATE FUNCTION moves_of_{kind}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" INSERT INTO moves VALUES ('{kind}', new.id::text, old.state, new.state, old.epoch,"
            " new.epoch, new.token); RETURN new; END $$"
        )
        made.append(
            f"CREATE TRIGGER moves_of_{kind} AFTER UPDATE ON {table} FOR EACH ROW"
            " WHEN (old.state <> new.state OR old.epoch <> new.epoch)"
            f" EXECUTE FUNCTION moves_of_{kind}()"
        )
    return made
