"""The database as whoever runs the storm sees it: made, looked at from beside, struck, cleared.

Every look is a connection of its own that is closed again: processes are forked all the time, and
none of them may inherit one.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import struct
import sys
import time
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from duly._kernel.errors import DulyError, Misuse
from duly._kernel.extras import needs
from duly.stores.opening import store
from duly.tools.output import one_line
from duly.tools.storm.settings import SCHEMA
from duly.tools.storm.tables import ON_POSTGRES, ON_SQLITE, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.tools.storm.settings import Settings

OURS = ("effects", "accounts", "leases", "breaches", "lease", "breach")
# Nobody has minutes here to wait for a job that comes back for the fourth time.
HURRY = "UPDATE {jobs} SET run_at = {now} WHERE state = 'ready' AND rescues > 0 AND run_at > {now}"
LOOK = "SELECT sum(n), (SELECT count(*) FROM {jobs} WHERE state = 'dead') FROM {accounts}"
LEFT = "SELECT (SELECT count(*) FROM {jobs} WHERE state <> 'dead'), (SELECT count(*) FROM {outbox})"
# Locks that somebody still holds on what is the storm's.
LOCKS = """
SELECT count(*)
  FROM pg_locks AS held
  JOIN pg_database AS here ON here.oid = held.database AND here.datname = current_database()
  JOIN pg_class AS relation ON relation.oid = held.relation
  JOIN pg_namespace AS schema ON schema.oid = relation.relnamespace
 WHERE held.pid <> pg_backend_pid() AND schema.nspname = '{schema}'
"""
# What fcntl(2) takes and gives back on Linux, and the byte that a writer locks (SQLite: walformat).
FLOCK = struct.Struct("hhqqi4x")
WRITE_LOCK = 120
# Parts of an address that say where a server is and who asks; the driver has told these.
PLACES = frozenset(
    ("host", "hostaddr", "port", "user", "password", "dbname", "service", "sslmode", "gssencmode")
)
# Seconds for a server that was struck down to be back.
BACK = 60.0


class Look(NamedTuple):
    """How far everything is."""

    handled: int
    """Effects there are."""
    dead: int
    """Events that were given up."""


class Left(NamedTuple):
    """What is still to be done."""

    jobs: int
    messages: int


class Unreachable(DulyError):
    """The database cannot be asked just now."""


class Server(NamedTuple):
    """Where a server listens: a host and a port, or the folder of a socket and a port."""

    host: str
    port: int


class Asked(ABC):
    """What both kinds of database share."""

    now = ""
    bytes_type = ""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        names = ("jobs", "outbox", "events", "history", "workers")
        self._names = {name: settings.table(f"duly_{name}") for name in names}
        self._names |= {name: settings.table(name) for name in OURS}
        self._names |= {"now": self.now, "bytes": self.bytes_type, "schema": SCHEMA}

    def written(self, statement: str) -> str:
        """A statement with the names that the tables have."""
        return statement.format(**self._names)

    def look(self) -> Look:
        """See how far everything is, and hurry; raises `Unreachable` where it cannot be seen."""
        return Look(*map(int, self.seen()))

    def left(self) -> Left:
        """Count what is still to be done: not to be asked often while there is much."""
        [row] = self.asked(LEFT)
        return Left(*map(int, row))

    @abstractmethod
    def seen(self) -> tuple[Any, ...]:
        """One row of `LOOK`; jobs that come back after a rescue come back now."""

    @abstractmethod
    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, on a connection of its own."""


class SqliteDatabase(Asked):
    """One file."""

    now = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
    bytes_type = "blob"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.path = Path(unquote(settings.url.removeprefix("sqlite:///")))

    def prepare(self) -> None:
        """Make the file and its tables."""
        if self.path.exists():
            raise Misuse(
                f"{self.path} exists already: a storm makes a file of its own, name another"
            )
        with store(self._settings.url):
            pass
        with self._connected() as connection:
            for statement in (*TABLES, *ON_SQLITE):
                connection.execute(self.written(statement))

    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the file."""
        try:
            with self._connected() as connection:
                return connection.execute(self.written(statement)).fetchall()
        except sqlite3.OperationalError as problem:
            raise Unreachable(str(problem)) from problem

    def seen(self) -> tuple[Any, ...]:
        """Look, and write only where there is something to hurry: writing makes others wait."""
        waiting = "SELECT 1 FROM {jobs} WHERE state = 'ready' AND rescues > 0 AND run_at > {now}"
        if self.asked(f"{waiting} LIMIT 1"):
            self.asked(HURRY)
        [row] = self.asked(LOOK)
        return row

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, as they come."""
        with self._connected() as connection:
            yield from connection.execute(self.written(statement))

    def writer(self) -> int:
        """The process that has the write lock at this instant; 0 for nobody.

        In WAL mode the lock is one byte of the file beside the database.
        """
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, WRITE_LOCK, 1, 0)
        with self.path.with_name(f"{self.path.name}-shm").open("rb") as memory:
            kind, _, _, _, process = FLOCK.unpack(fcntl.fcntl(memory, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(process)

    def leftovers(self) -> int:
        """Whether anything is locked, or broken."""
        with self._connected() as connection:
            [(found,)] = connection.execute("PRAGMA integrity_check").fetchall()
            [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return int(found != "ok") + int(busy)

    def clear(self) -> None:
        """Nothing: the file goes with its folder."""

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=5.0)
        with closing(connection):
            yield connection


class PostgresDatabase(Asked):
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
        if self.asked(f"SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'"):  # noqa: S608
            raise Misuse(
                f"there is a schema {SCHEMA} already, from a storm that runs or was cut short: "
                f"DROP SCHEMA {SCHEMA} CASCADE, or name another database"
            )
        self.asked(f"CREATE SCHEMA {SCHEMA}")
        store(self._settings.url, schema=SCHEMA).migrate()
        for statement in (*TABLES, *ON_POSTGRES):
            self.asked(statement)

    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the server."""
        try:
            with self._connected() as connection:
                cursor = connection.execute(self.written(statement))
                return cursor.fetchall() if cursor.description else []
        except self._driver.OperationalError as problem:
            raise Unreachable(str(problem)) from problem

    def seen(self) -> tuple[Any, ...]:
        """Look, and hurry, in one connection: each costs the server a process."""
        changed = f"WITH hurried AS ({HURRY} RETURNING 1) "
        [row] = self.asked(changed + LOOK)
        return row

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, in portions."""
        with (
            self._connected() as connection,
            connection.transaction(),
            connection.cursor("storm") as cursor,
        ):
            cursor.itersize = 10_000
            yield from cursor.execute(self.written(statement))

    def leftovers(self) -> int:
        """Locks that transactions of somebody still hold."""
        [(locks,)] = self.asked(LOCKS)
        return int(locks)

    def clear(self) -> None:
        """Drop the schema."""
        self.asked(f"DROP SCHEMA {SCHEMA} CASCADE")

    def by_way_of(self, port: int) -> str:
        """The address of the same database through a proxy on this machine."""
        assert self._path is not None  # noqa: S101  # or there is no proxy
        user, at, _ = self._path.netloc.rpartition("@")
        return urlunsplit(self._path._replace(netloc=f"{user}{at}127.0.0.1:{port}"))

    def _find(self) -> None:
        """Learn from a connection where it leads: an address may leave that to its surroundings."""
        try:
            with self._connected() as connection:
                found, encrypted = connection.info, connection.pgconn.ssl_in_use
                if encrypted:  # then nobody can tell where an answer ends
                    return
                self.server = Server(found.hostaddr or found.host, found.port)
                user, password = quote(found.user, safe=""), quote(found.password, safe="")
                login = f"{user}:{password}@" if password else f"{user}@"
                database = quote(found.dbname, safe="")
        except self._driver.OperationalError as problem:
            raise Misuse(f"no PostgreSQL answers there: {one_line(problem)}") from problem
        parts = urlsplit(self._settings.url)
        kept = [(name, value) for name, value in parse_qsl(parts.query) if name not in PLACES]
        query = urlencode([*kept, ("sslmode", "disable"), ("gssencmode", "disable")])
        self._path = parts._replace(netloc=login, path=f"/{database}", query=query)

    def _refuse_another(self, cluster: Path) -> None:
        """Refuse to strike a server that is not the one at the address."""
        [(found,)] = self.asked("SELECT current_setting('data_directory', true)")
        if not cluster.is_dir() or not found or not same_folder(Path(found), cluster):
            raise Misuse(
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
                self.asked("SELECT 1")
            except Unreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                return

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with self._driver.connect(
            self._settings.url, autocommit=True, connect_timeout=5
        ) as connection:
            yield connection


def server_pid(cluster: Path) -> int:
    """The process of the server that serves this folder."""
    try:
        pid = int((cluster / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        pid = 0
    # A server works in its folder. The file may be older than the server, and the number another's.
    place = Path(f"/proc/{pid}/cwd")
    if pid == 0 or (sys.platform == "linux" and not same_folder(place, cluster)):
        raise Misuse(f"no server of this machine serves {cluster}, as far as can be seen")
    return pid


def same_folder(one: Path, other: Path) -> bool:
    """Whether both lead to one folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def database_of(settings: Settings) -> SqliteDatabase | PostgresDatabase:
    """The database of a storm."""
    return SqliteDatabase(settings) if settings.on_sqlite else PostgresDatabase(settings)
