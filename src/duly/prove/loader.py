"""The application under proof: by its name, imported in the process that runs it, or as it is."""

from __future__ import annotations

import gc
import sqlite3
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from duly.app.duly import Duly
from duly.app.loading import import_by_name as imported_by_name
from duly.app.loading import load_app
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.prove.clocks import ProofTime, time_for
from duly.stores.sqlite.connection import WriterConnection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from duly.core.defaults import Names
    from duly.prove.asks import Ask


class Subject(NamedTuple):
    """What is proved: an application, and the site through which it is reached, if any."""

    app: Duly
    site: Any = None


Load = Callable[[], Subject]


@dataclass(frozen=True, slots=True)
class AppInfo:
    """What the prover must know of the application, which lives in another process."""

    url: str
    names: Names
    # Where the server of that database listens; nothing for a file.
    database: frozenset[tuple[str, int]]
    # What the import has left open, so that it must be repeated in each process.
    inherited: str | None
    time: ProofTime


def describe_app(app: Duly, asks: Sequence[Ask]) -> AppInfo:
    """The facts about the application, before anything is run."""
    return AppInfo(
        database_url(app),
        app.store.names,
        server_addresses(app.store.url),
        find_inherited(),
        time_for(app, asks),
    )


def database_url(app: Duly) -> str:
    """Where duly's tables are; of a temporary store, its file."""
    if app.store.capabilities.durable:
        return app.store.url
    return f"sqlite:///{app.store._path}"  # type: ignore[attr-defined]


def server_addresses(url: str) -> frozenset[tuple[str, int]]:
    """The addresses of the server behind an address of PostgreSQL's."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        return frozenset()
    with needs("postgres", "psycopg"):
        from psycopg.conninfo import conninfo_to_dict
    told = conninfo_to_dict(url)
    hosts = str(told.get("hostaddr") or told.get("host") or "localhost").split(",")
    ports = str(told.get("port") or 5432).split(",")
    return frozenset((host, int(port)) for host in hosts for port in ports if port)


def find_inherited() -> str | None:
    """What a forked process must not inherit: open connections, and threads."""
    if threading.active_count() > 1:
        return "threads"
    return "connections" if any(is_connection(one) for one in gc.get_objects()) else None


def is_connection(value: object) -> bool:
    """Whether it is an open connection to a database."""
    if isinstance(value, sqlite3.Connection):
        return sqlite_is_open(value)
    psycopg, asyncpg = sys.modules.get("psycopg"), sys.modules.get("asyncpg")
    if psycopg is not None and isinstance(value, psycopg.Connection | psycopg.AsyncConnection):
        return not value.closed
    if asyncpg is not None and isinstance(value, asyncpg.Connection):
        return not value.is_closed()
    return False


def sqlite_is_open(connection: sqlite3.Connection) -> bool:
    """SQLite's own words tell a closed connection from one that belongs to another thread."""
    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError as problem:
        return "closed" not in str(problem)
    return True


def refuse_open_files() -> None:
    """Refuse where this process has SQLite files open, which its forks would write to unseen.

    A connection that was opened before the proof cannot be watched, and nothing would restore what
    goes through it.
    """
    if not open_files():
        return
    gc.collect()  # unreachable connections do not count
    for file in sorted(open_files()):
        raise UsageError(
            f"a connection to {file} is open in this process: close it before the proof, or open "
            "it in the handler. The processes of a proof would inherit it, and write to that file "
            "unseen"
        )


def open_files() -> set[str]:
    """The files to which this process has SQLite connections; duly's own are seen by no fork."""
    found: set[str] = set()
    for one in gc.get_objects():
        if isinstance(one, sqlite3.Connection) and not isinstance(one, WriterConnection):
            found |= files_of(one) if sqlite_is_open(one) else set()
    return found


def files_of(connection: sqlite3.Connection) -> set[str]:
    """The files of a connection; only its own thread can ask for their names."""
    try:
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        rows = cursor.execute("PRAGMA database_list").fetchall()
    except sqlite3.ProgrammingError:
        return {"a SQLite database in another thread"}
    return {file for _, _, file in rows if file}


def by_name(name: str, site: str | None = None) -> Load:
    """Import the application, and the site that it is in, when they are asked for."""

    def load() -> Subject:
        app = load_app(name)
        if not app.store.capabilities.durable:
            app.store.close()  # or its folder stays: this process ends without a farewell
            raise UsageError(
                "a memory: store is one process's own, so that nothing of it is left when that is "
                "killed: let the application use a SQLite file or PostgreSQL for its proof"
            )
        return Subject(app, None if site is None else load_site(site))

    return load


def load_site(name: str) -> Any:
    """The site that a name means: a module and an attribute of it."""
    module, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier():
        raise UsageError(
            f"--through must be like web:api, a module and what it calls the site: {name!r:.60}"
        )
    there = imported_by_name(module)
    if not hasattr(there, attribute):
        raise UsageError(f"there is no {attribute} in {module}: {sites_in(there)}")
    return getattr(there, attribute)


def sites_in(module: ModuleType) -> str:
    """What of a module could be a site: something made by a class, and to be called."""
    known = [
        name
        for name, one in vars(module).items()
        if callable(one)
        and not isinstance(one, type | FunctionType | Duly)
        and not name.startswith("_")
    ]
    return f"it has {', '.join(known)}" if known else "name what takes the requests of your site"


def from_object(app: Duly, site: Any = None) -> Load:
    """An application of this process: its forked children have it, too."""
    return lambda: Subject(app, site)
