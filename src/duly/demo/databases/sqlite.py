"""The SQLite file of a storm."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from duly.core.errors import UsageError
from duly.demo.databases.base import (
    HURRY,
    LOOK,
    ON_SQLITE,
    TABLES,
    StormDatabase,
    Unreachable,
)
from duly.stores.open import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.demo.settings import Settings

# What fcntl(2) takes and gives back on Linux, and the byte that a writer locks (SQLite: walformat).
FLOCK = struct.Struct("hhqqi4x")
WRITE_LOCK = 120


class SqliteDatabase(StormDatabase):
    """One file."""

    now = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
    bytes_type = "blob"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.path = Path(unquote(settings.url.removeprefix("sqlite:///")))

    def prepare(self) -> None:
        """Create the file and its tables."""
        if self.path.exists():
            raise UsageError(
                f"{self.path} exists already: the demo makes a file of its own, name another"
            )
        with store(self._settings.url):
            pass
        with self._connect() as connection:
            for statement in (*TABLES, *ON_SQLITE):
                connection.execute(self.fill_table_names(statement))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        try:
            with self._connect() as connection:
                return connection.execute(self.fill_table_names(statement)).fetchall()
        except sqlite3.OperationalError as problem:
            raise Unreachable(str(problem)) from problem

    def fetch_progress_row(self) -> tuple[Any, ...]:
        """Return one row of ``LOOK``; write only if rescued jobs wait: a write blocks others."""
        waiting = "SELECT 1 FROM {jobs} WHERE state = 'ready' AND rescues > 0 AND run_at > {now}"
        if self.query(f"{waiting} LIMIT 1"):
            self.query(HURRY)
        [row] = self.query(LOOK)
        return row

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a statement, as they come."""
        with self._connect() as connection:
            yield from connection.execute(self.fill_table_names(statement))

    def writer(self) -> int:
        """Return the pid that has the write lock at this instant, or 0.

        In WAL mode the lock is one byte of the file beside the database.
        """
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, WRITE_LOCK, 1, 0)
        with self.path.with_name(f"{self.path.name}-shm").open("rb") as memory:
            kind, _, _, _, process = FLOCK.unpack(fcntl.fcntl(memory, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(process)

    def leftovers(self) -> int:
        """Return more than 0 if the file is locked or broken."""
        with self._connect() as connection:
            [(found,)] = connection.execute("PRAGMA integrity_check").fetchall()
            [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return int(found != "ok") + int(busy)

    def clear(self) -> None:
        """Do nothing: the file goes with its folder."""

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=5.0)
        with closing(connection):
            yield connection
