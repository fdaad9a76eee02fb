"""Where contenders work: databases that are copied from one another, and asked what is left."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from tests.support.servers.databases import database, database_of

from benchmarks.ingesting.tables import file_of
from benchmarks.working import figures
from benchmarks.working.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DISK = ROOT / ".cache"


class Ground(Protocol):
    """One store."""

    def new(self, like: str = "") -> AbstractContextManager[str]:
        """A database for as long as it is needed: a copy of another one, or an empty one."""

    def settle(self, url: str) -> None:
        """Let nothing of what was written into it disturb what comes next."""

    def asking(self, url: str, question: str) -> AbstractContextManager[Callable[[], Any]]:
        """A way to ask one question again and again."""

    def marks(self, url: str) -> figures.Marks | None:
        """What was written and committed so far, where the store says so."""


class OnPostgres:
    """The one server of the run."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url
        self._server = figures.Server(admin_url)

    def close(self) -> None:
        """At the end of the run."""
        self._server.close()

    def new(self, like: str = "") -> AbstractContextManager[str]:
        """A database of its own."""
        self._server.checkpoint()
        return database(self._admin_url, database_of(like) if like else None)

    def settle(self, url: str) -> None:
        """The planner knows every table as it is."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    @contextmanager
    def asking(self, url: str, question: str) -> Iterator[Callable[[], Any]]:
        """On a connection of its own."""
        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda: figures.first(connection, question)

    def marks(self, url: str) -> figures.Marks:
        """The server counts."""
        return self._server.marks(database_of(url))


class OnSqlite:
    """A file for each, on the disk that the sources are on."""

    @contextmanager
    def new(self, like: str = "") -> Iterator[str]:
        """A file in a folder of its own."""
        DISK.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=DISK, prefix="outbox-") as folder:
            file = Path(folder) / "outbox.db"
            if like:
                shutil.copy(file_of(like), file)
            yield f"sqlite:///{file}"

    def settle(self, url: str) -> None:
        """Everything is in the one file that is copied."""
        with closing(sqlite3.connect(file_of(url))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def asking(self, url: str, question: str) -> Iterator[Callable[[], Any]]:
        """Reading holds nobody up."""
        with closing(sqlite3.connect(file_of(url))) as connection:
            yield lambda: bool(connection.execute(question).fetchone()[0])

    def marks(self, url: str) -> None:  # noqa: ARG002
        """Nobody counts."""
        return
