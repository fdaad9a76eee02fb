"""A database for each test: a SQLite file, or a database on a PostgreSQL server, and its end."""

from __future__ import annotations

import atexit
import os
import tempfile
import uuid
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

from duly.core.defaults import Names, names
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.stores.open import store as named_store
from duly.testing.guard import TEST_DATABASES, database_identity, test_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.core.clock import Clock
    from duly.stores.store import Store

POSTGRES = ("postgresql", "postgres")
PREFIX = "duly_test_"
# The server's own, from which others are made.
EMPTY = "template1"
FORMS = (
    "leave it out (or say memory:) for a SQLite file for each test, or name a PostgreSQL server: "
    "postgresql://user@localhost/postgres"
)


class Databases:
    """Makes databases for tests, each with duly's tables.

    Args:
        server: a PostgreSQL database in which others may be created. Nothing is written into
            itself. SQLite files unless given.
    """

    def __init__(self, server: str | None = None) -> None:
        self._server = checked_server(server)
        # Copied for each test but the first: one test alone needs none.
        self._template: str | None = None
        self._used = False

    @contextmanager
    def fresh(self, folder: Path | None = None) -> Iterator[str]:
        """The address of a new database, which is gone at the end of the block."""
        with ExitStack() as stack:
            if self._server is not None:
                url = stack.enter_context(self._fresh_on_server(self._server))
            else:
                if folder is None:
                    made = tempfile.TemporaryDirectory(prefix="duly-", ignore_cleanup_errors=True)
                    folder = Path(stack.enter_context(made))
                url = f"sqlite:///{quote(str(folder.absolute() / 'duly.db'))}"
            test_database(url)
            stack.callback(TEST_DATABASES.discard, database_identity(url))
            yield url

    @contextmanager
    def _fresh_on_server(self, server: str) -> Iterator[str]:
        if self._used and self._template is None:
            self._template = create_database(server, EMPTY)
            migrate_database(url_of_database(server, self._template))
        self._used = True
        name = create_database(server, self._template or EMPTY)
        try:
            url = url_of_database(server, name)
            if self._template is None:
                migrate_database(url)
            yield url
        finally:
            drop_database(server, name)

    def close(self) -> None:
        """Drop the template database."""
        if self._server is not None and self._template is not None:
            drop_database(self._server, self._template)
            self._template = None


@cache
def databases_on(server: str | None) -> Databases:
    """The databases of this process, closed when it ends."""
    databases = Databases(server)
    atexit.register(close_at_exit, databases)
    return databases


def close_at_exit(databases: Databases) -> None:
    """Close at the end of the process: a server that is gone has taken everything with it."""
    with suppress(UsageError):
        databases.close()


def checked_server(server: str | None) -> str | None:
    """A server to make databases in; None for SQLite."""
    if server is None or server == "memory:":
        return None
    try:
        scheme = urlsplit(server).scheme
    except ValueError:
        scheme = ""
    if scheme not in POSTGRES:
        raise UsageError(f"the database for tests: {FORMS}")
    if {"dbname", "service"} & set(parse_qs(urlsplit(server).query)):
        # To libpq they come before the path, which is where the name of a test's database goes.
        raise UsageError(
            "the database for tests: write the name in the path of the address, and no dbname= or "
            "service= behind it: postgresql://user@localhost/postgres"
        )
    return server


def migrate_database(url: str) -> None:
    """Make duly's tables, under their usual names."""
    opened = store_at(url, names(), None)
    try:
        opened.migrate()
    finally:
        opened.close()


def store_at(url: str, where: Names, clock: Clock | None) -> Store:
    """A store for a test, which need not survive a power cut: files are not synced."""
    if urlsplit(url).scheme == "sqlite":
        from duly.stores.sqlite.store import SqliteStore

        path = Path(database_identity(url)[1])
        found = SqliteStore(url, path, Names(where.prefix), clock, durable=False)
        found.strict = False
        return found
    return named_store(url, prefix=where.prefix, schema=where.schema, clock=clock, durability="any")


def create_database(server: str, template: str) -> str:
    """A new database, a copy of another, under a name that no other process has."""
    name = f"{PREFIX}{os.getpid()}_{uuid.uuid4().hex[:16]}"
    administer(server, "CREATE DATABASE {} TEMPLATE {}", name, template)
    return name


def drop_database(server: str, name: str) -> None:
    """Drop a database, and end the connections to it."""
    administer(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def url_of_database(server: str, name: str) -> str:
    """The same server and user, another database.

    Not by `urlunsplit`: Python 3.11's writes `postgresql:///name` with a single slash.
    """
    scheme, netloc, _, query, fragment = urlsplit(server)
    return f"{scheme}://{netloc}/{name}{query and f'?{query}'}{fragment and f'#{fragment}'}"


def administer(server: str, statement: str, *names: str) -> None:
    """Create or drop a database, which no transaction can contain."""
    with needs("postgres", "psycopg"):
        import psycopg
        from psycopg.sql import SQL, Identifier
    said: Any = SQL(statement).format(*map(Identifier, names))
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(said)
    except psycopg.errors.InsufficientPrivilege as problem:
        raise UsageError(
            "this PostgreSQL role may not create databases, and each test needs one of its own: "
            "ALTER ROLE … CREATEDB, or use another role"
        ) from problem
    except psycopg.OperationalError as problem:
        reason = str(problem).splitlines()[0]
        raise UsageError(f"the PostgreSQL server for tests cannot be used: {reason}") from problem
