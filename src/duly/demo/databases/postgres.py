"""The schema of a storm on a server: made, looked at from beside, struck, cleared."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from duly.app.output import one_line
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.demo.databases.base import HURRY, LOOK, StormDatabase, Unreachable
from duly.demo.databases.servers import Server, same_folder, server_pid
from duly.demo.settings import SCHEMA
from duly.demo.tables import ON_POSTGRES, TABLES
from duly.stores.open import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.demo.settings import Settings

# Locks that somebody still holds on what is the storm's.
LOCKS = """
SELECT count(*)
  FROM pg_locks AS held
  JOIN pg_database AS here ON here.oid = held.database AND here.datname = current_database()
  JOIN pg_class AS relation ON relation.oid = held.relation
  JOIN pg_namespace AS schema ON schema.oid = relation.relnamespace
 WHERE held.pid <> pg_backend_pid() AND schema.nspname = '{schema}'
"""
# Parts of an address that say where a server is and who asks; the driver has told these.
PLACES = frozenset(
    ("host", "hostaddr", "port", "user", "password", "dbname", "service", "sslmode", "gssencmode")
)
# Seconds for a server that was struck down to be back.
BACK = 60.0


class PostgresDatabase(StormDatabase):
    """A schema of its own in a database on a server."""

    now = "clock_timestamp()"
    bytes_type = "bytea"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        with needs("postgres", "psycopg"):
            import psycopg
        self._driver = psycopg
        # Where the server is as the driver found it, and the address of the same database by way
        # of another port; None where nobody can stand in between.
        self.server: Server | None = None
        self._path: SplitResult | None = None

    def prepare(self) -> None:
        """Make the schema and its tables."""
        self._find()
        if self._settings.cluster is not None:
            self._refuse_another(self._settings.cluster)
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
        """Ask the server."""
        try:
            with self._connect() as connection:
                cursor = connection.execute(self.fill_table_names(statement))
                return cursor.fetchall() if cursor.description else []
        except self._driver.OperationalError as problem:
            raise Unreachable(str(problem)) from problem

    def fetch_progress_row(self) -> tuple[Any, ...]:
        """Look, and hurry, in one connection: each costs the server a process."""
        changed = f"WITH hurried AS ({HURRY} RETURNING 1) "
        [row] = self.query(changed + LOOK)
        return row

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, in portions."""
        with (
            self._connect() as connection,
            connection.transaction(),
            connection.cursor("storm") as cursor,
        ):
            cursor.itersize = 10_000
            yield from cursor.execute(self.fill_table_names(statement))

    def leftovers(self) -> int:
        """Locks that transactions of somebody still hold."""
        [(locks,)] = self.query(LOCKS)
        return int(locks)

    def clear(self) -> None:
        """Drop the schema."""
        self.query(f"DROP SCHEMA {SCHEMA} CASCADE")

    def by_way_of(self, port: int) -> str:
        """The address of the same database through a proxy on this machine."""
        assert self._path is not None  # noqa: S101  # or there is no proxy
        user, at, _ = self._path.netloc.rpartition("@")
        return urlunsplit(self._path._replace(netloc=f"{user}{at}127.0.0.1:{port}"))

    def _find(self) -> None:
        """Learn from a connection where it leads: an address may leave that to its surroundings."""
        try:
            with self._connect() as connection:
                found, encrypted = connection.info, connection.pgconn.ssl_in_use
                if encrypted:  # then nobody can tell where an answer ends
                    return
                self.server = Server(found.hostaddr or found.host, found.port)
                user, password = quote(found.user, safe=""), quote(found.password, safe="")
                login = f"{user}:{password}@" if password else f"{user}@"
                database = quote(found.dbname, safe="")
        except self._driver.OperationalError as problem:
            raise UsageError(f"no PostgreSQL answers there: {one_line(problem)}") from problem
        parts = urlsplit(self._settings.url)
        kept = [(name, value) for name, value in parse_qsl(parts.query) if name not in PLACES]
        query = urlencode([*kept, ("sslmode", "disable"), ("gssencmode", "disable")])
        self._path = parts._replace(netloc=login, path=f"/{database}", query=query)

    def _refuse_another(self, cluster: Path) -> None:
        """Refuse to strike a server that is not the one at the address."""
        [(found,)] = self.query("SELECT current_setting('data_directory', true)")
        if not cluster.is_dir() or not found or not same_folder(Path(found), cluster):
            raise UsageError(
                f"the server at this address does not serve {cluster}: --cluster takes its data "
                "directory, as SHOW data_directory says it to a superuser"
            )
        server_pid(cluster)

    def strike(self) -> int:
        """End the server at once, in the middle of everything; whoever keeps it starts it again.

        The signal is what ``pg_ctl stop -m immediate`` sends.
        """
        assert self._settings.cluster is not None  # noqa: S101  # or nobody asks for this
        pid = server_pid(self._settings.cluster)
        os.kill(pid, signal.SIGQUIT)
        return pid

    def wait(self) -> None:
        """Wait until the server answers."""
        until = time.monotonic() + BACK
        while True:
            try:
                self.query("SELECT 1")
            except Unreachable:
                if time.monotonic() > until:
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
