"""The database of one set-up: made for it, looked at from outside, and removed."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import psycopg
from tests.support.servers.databases import database, template_database

import duly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

# Nothing here keeps an event from standing twice: duly must.
TABLE = "CREATE TABLE entries (number {number}, event text NOT NULL, kind text NOT NULL)"
# Transactions that are open for longer than any statement here takes.
OPEN = (
    "SELECT pid || ' ' || state || ': ' || left(query, 60) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND state LIKE 'idle in transaction%' AND state_change < now() - interval '2 seconds'"
)
# Seconds that the audit waits for SQLite's write lock.
LOCKED = 10.0


class Place(Protocol):
    """One database."""

    url: str

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own and return the rows."""

    def open_transactions(self) -> list[str]:
        """Transactions that are left open, as one line each."""


class SqlitePlace:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        with duly.store(self.url):
            pass
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(TABLE.format(number="INTEGER PRIMARY KEY"))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with closing(sqlite3.connect(self._path, timeout=LOCKED)) as connection:
            return connection.execute(statement).fetchall()

    def open_transactions(self) -> list[str]:
        """The write lock must be free for another."""
        with closing(
            sqlite3.connect(self._path, timeout=LOCKED, isolation_level=None)
        ) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as problem:
                return [f"SQLite's write lock: {problem}"]
            connection.execute("ROLLBACK")
        return []


class PostgresPlace:
    """A database of a server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with psycopg.connect(self.url, connect_timeout=5) as connection:
            return connection.execute(statement.encode()).fetchall()

    def open_transactions(self) -> list[str]:
        """What the server says of its sessions."""
        return [told for (told,) in self.rows(OPEN)]


def build(url: str) -> None:
    """Make duly's tables and the shop's in an empty database of PostgreSQL."""
    with psycopg.connect(url) as connection:
        duly.migrate(connection)
        connection.execute(TABLE.format(number="bigserial PRIMARY KEY").encode())


class Server:
    """A PostgreSQL server whose databases are copies of one that is built once."""

    def __init__(self, admin_url: str, template: str) -> None:
        self._admin_url, self._template = admin_url, template

    @contextmanager
    def place(self) -> Iterator[PostgresPlace]:
        """A new database."""
        with database(self._admin_url, self._template) as url:
            yield PostgresPlace(url)


@contextmanager
def prepared(admin_url: str) -> Iterator[Server]:
    """The server with its template."""
    with template_database(admin_url, build) as template:
        yield Server(admin_url, template)


@contextmanager
def file_place(folder: Path) -> Iterator[SqlitePlace]:
    """A new file of SQLite's."""
    yield SqlitePlace(folder / f"{uuid.uuid4().hex}.db")


def place_on(server: Server | None, folder: Path) -> AbstractContextManager[Place]:
    """A database on the server, or a file where there is none."""
    return file_place(folder) if server is None else server.place()


def with_scheme(url: str, scheme: str) -> str:
    """The address as the driver or ORM writes it; a proxy's own parameters are left out."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return url.replace("sqlite:", f"{scheme}:", 1)
    return urlunsplit(parts._replace(scheme=scheme, query=""))
