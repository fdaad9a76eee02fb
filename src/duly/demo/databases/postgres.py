"""The schema of a storm on a PostgreSQL server, which may be crashed."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from duly.app.output import one_line
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.demo.databases.base import (
    HURRY,
    LOOK,
    ON_POSTGRES,
    TABLES,
    StormDatabase,
    Unreachable,
)
from duly.demo.settings import SCHEMA
from duly.stores.open import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.demo.settings import Settings

# Locks that transactions still hold on the storm's tables.
LOCKS = """
SELECT count(*)
  FROM pg_locks AS held
  JOIN pg_database AS here ON here.oid = held.database AND here.datname = current_database()
  JOIN pg_class AS relation ON relation.oid = held.relation
  JOIN pg_namespace AS schema ON schema.oid = relation.relnamespace
 WHERE held.pid <> pg_backend_pid() AND schema.nspname = '{schema}'
"""
# Parts of a URL that say where a server is and which user asks; the driver has resolved these.
RESOLVED = frozenset(
    ("host", "hostaddr", "port", "user", "password", "dbname", "service", "sslmode", "gssencmode")
)
# Seconds for a crashed server to be back.
BACK = 60.0


class Server(NamedTuple):
    """Where a server listens: a host and a port, or the folder of a socket and a port."""

    host: str
    port: int


def server_pid(cluster: Path) -> int:
    """Return the pid of the server of this data directory."""
    try:
        pid = int((cluster / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        pid = 0
    # A server's working directory is its data directory. The file may be stale, and the pid reused.
    place = Path(f"/proc/{pid}/cwd")
    if pid == 0 or (sys.platform == "linux" and not same_folder(place, cluster)):
        raise UsageError(f"no server of this machine serves {cluster}, as far as can be seen")
    return pid


def same_folder(one: Path, other: Path) -> bool:
    """Return True if both lead to one folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False


class PostgresDatabase(StormDatabase):
    """A schema of its own in a database on a server."""

    now = "clock_timestamp()"
    bytes_type = "bytea"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        with needs("postgres", "psycopg"):
            import psycopg
        self._driver = psycopg
        # Where the server is as the driver found it, and the URL of the same database for a proxy;
        # None where no proxy can be used.
        self.server: Server | None = None
        self._path: SplitResult | None = None

    def prepare(self) -> None:
        """Create the schema and its tables."""
        self._find()
        if self._settings.cluster is not None:
            self._refuse_other_server(self._settings.cluster)
        if self.query(f"SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'"):  # noqa: S608
            raise UsageError(
                f"there is a schema {SCHEMA} already, from a storm that runs or was cut short: "
                f"DROP SCHEMA {SCHEMA} CASCADE, or name another database"
            )
        self.query(f"CREATE SCHEMA {SCHEMA}")
        store(self._settings.url, schema=SCHEMA).migrate()
        for statement in (*TABLES, *ON_POSTGRES):
            self.query(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        try:
            with self._connect() as connection:
                cursor = connection.execute(self.fill_table_names(statement))
                return cursor.fetchall() if cursor.description else []
        except self._driver.OperationalError as problem:
            raise Unreachable(str(problem)) from problem

    def fetch_progress_row(self) -> tuple[Any, ...]:
        """Return one row of ``LOOK``, in one connection: each costs the server a process."""
        changed = f"WITH hurried AS ({HURRY} RETURNING 1) "
        [row] = self.query(changed + LOOK)
        return row

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a statement, in portions."""
        with (
            self._connect() as connection,
            connection.transaction(),
            connection.cursor("storm") as cursor,
        ):
            cursor.itersize = 10_000
            yield from cursor.execute(self.fill_table_names(statement))

    def leftovers(self) -> int:
        """Return how many locks transactions still hold."""
        [(locks,)] = self.query(LOCKS)
        return int(locks)

    def clear(self) -> None:
        """Drop the schema."""
        self.query(f"DROP SCHEMA {SCHEMA} CASCADE")

    def by_way_of(self, port: int) -> str:
        """Return the URL of the same database through a proxy on this machine."""
        assert self._path is not None  # noqa: S101  # or there is no proxy
        user, at, _ = self._path.netloc.rpartition("@")
        return urlunsplit(self._path._replace(netloc=f"{user}{at}127.0.0.1:{port}"))

    def _find(self) -> None:
        """Learn from a connection where the server is: a URL may leave that to the environment."""
        try:
            with self._connect() as connection:
                found, encrypted = connection.info, connection.pgconn.ssl_in_use
                if encrypted:  # a proxy could not see where a reply ends
                    return
                self.server = Server(found.hostaddr or found.host, found.port)
                user, password = quote(found.user, safe=""), quote(found.password, safe="")
                login = f"{user}:{password}@" if password else f"{user}@"
                database = quote(found.dbname, safe="")
        except self._driver.OperationalError as problem:
            raise UsageError(f"no PostgreSQL answers there: {one_line(problem)}") from problem
        parts = urlsplit(self._settings.url)
        kept = [(name, value) for name, value in parse_qsl(parts.query) if name not in RESOLVED]
        query = urlencode([*kept, ("sslmode", "disable"), ("gssencmode", "disable")])
        self._path = parts._replace(netloc=login, path=f"/{database}", query=query)

    def _refuse_other_server(self, cluster: Path) -> None:
        """Refuse to crash a server that is not the one at the URL."""
        [(found,)] = self.query("SELECT current_setting('data_directory', true)")
        if not cluster.is_dir() or not found or not same_folder(Path(found), cluster):
            raise UsageError(
                f"the server at this address does not serve {cluster}: --cluster takes its data "
                "directory, as SHOW data_directory says it to a superuser"
            )
        server_pid(cluster)

    def crash(self) -> int:
        """Crash the server; its service manager starts it again.

        The signal is what ``pg_ctl stop -m immediate`` sends.
        """
        assert self._settings.cluster is not None  # noqa: S101  # or this is not called
        pid = server_pid(self._settings.cluster)
        os.kill(pid, signal.SIGQUIT)
        return pid

    def wait(self) -> None:
        """Wait until the server answers."""
        deadline = time.monotonic() + BACK
        while True:
            try:
                self.query("SELECT 1")
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        with self._driver.connect(
            self._settings.url, autocommit=True, connect_timeout=5
        ) as connection:
            yield connection
