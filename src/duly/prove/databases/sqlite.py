"""SQLite files, copied through SQLite itself, so that their other users see a transaction."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.core.session import host_time
from duly.prove.databases.base import (
    AGING,
    LEFT,
    STAGED,
    Column,
    Table,
    UnfinishedWork,
    duly_table_names,
    is_wanted,
)
from duly.prove.databases.failures import place_of
from duly.prove.databases.numbering import shift_all_numbers
from duly.prove.databases.pending_work import pending_work
from duly.stores.open import store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.prove.databases.base import Rows

# Seconds; the process with the lock was killed, or is about to release it.
BUSY = 10.0
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
TABLES = """
SELECT name FROM sqlite_master
 WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name
"""
COPY_SUFFIX = ".before-duly-prove"
COMPANIONS = ("", "-wal", "-shm", "-journal")


def connect(path: Path) -> sqlite3.Connection:
    """A connection that begins no transaction by itself."""
    return sqlite3.connect(path, timeout=BUSY, isolation_level=None)


class RestorableSqlite:
    """One file.

    The state in which it was found is kept beside it, empty where the file did not exist.

    Args:
        path: where it is.
        names: what duly's tables in it are called.
    """

    def __init__(self, path: Path, names: Names) -> None:
        self._path = path
        self._copy = self._start = original_copy_path(path)
        self._names = names
        self.name = path.name
        self.files = [path]
        self.original_place = str(self._copy)

    @property
    def came_and_went(self) -> bool:
        """Whether there is no such file, and was none before."""
        return not self._path.exists() and self._copy.stat().st_size == 0

    def put_back(self) -> None:
        """Bring it to the state in which cases begin."""
        restore_copy(self._start, self._path)

    def shift_numbers(self) -> None:
        """Let numbers that SQLite gives out go on from elsewhere."""
        if not self._path.exists():
            return
        with closing(connect(self._path)) as connection:
            shift_all_numbers(connection)

    def mark_start(self, place: Path) -> None:
        """Let cases begin in the state that it is in now."""
        if self._path.exists():
            self._start = place / f"{self._copy.stat().st_ino}.db"
            copy_database(self._path, self._start)

    def restore_original(self) -> None:
        """As it was found."""
        restore_copy(self._copy, self._path, lasting=True)
        remove_database(self._copy)

    def save_copy(self, place: Path) -> str:
        """Copy it as it is now."""
        kept = place / self.name
        if self._path.exists():
            copy_database(self._path, kept)
        return str(kept)

    def contents(self, wanted: Sequence[str] | None) -> list[tuple[Table, Rows]]:
        """What is in the tables that are neither duly's nor SQLite's own, and what waits."""
        if not self._path.exists():
            return []
        with closing(connect(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = text_of
            names = {str(name) for (name,) in connection.execute(TABLES)}
            tables = [
                describe_table(connection, name)
                for name in sorted(names - duly_table_names(self._names))
                if not name.startswith("sqlite_") and is_wanted(name, wanted)
            ]
            found = [(table, rows_of(connection, table)) for table in tables]
            if not duly_table_names(self._names) <= names:
                return found
            return found + pending_work(
                self._names, lambda asked: connection.execute(asked).fetchall()
            )


class SqliteUnderProof:
    """duly's own tables in a file: for the end of leases, and for what is left."""

    def __init__(self, url: str, path: Path, names: Names) -> None:
        self._url = url
        self._path = path
        self._names = names

    def prepare(self) -> None:
        """Make duly's tables now, where they are missing: each case would."""
        opened = store(self._url, prefix=self._names.prefix)
        opened.open()
        opened.close()

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """A connection for the user's own questions."""
        with closing(sqlite3.connect(self._path, timeout=BUSY)) as connection:
            yield connection

    def age(self, clock: Clock | None = None) -> None:
        """Let every lease run out, and every wait for another attempt be over."""
        now = host_time(clock)
        with closing(connect(self._path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in self._render(AGING, past=now - 1, now=now, no=0):
                connection.execute(statement)
            connection.execute("COMMIT")

    def staged(self) -> bool:
        """Whether there are messages."""
        with closing(connect(self._path)) as connection:
            [statement] = self._render((STAGED,))
            return connection.execute(statement).fetchone() is not None

    def left(self) -> list[UnfinishedWork]:
        """What was begun and is not done."""
        with closing(connect(self._path)) as connection:
            [statement] = self._render((LEFT,), waiting="waiting")
            return [
                UnfinishedWork(what, name, state, error_line(error), place_of(error))
                for what, name, state, error in connection.execute(statement)
            ]

    def _render(self, statements: Sequence[str], **values: Any) -> Iterator[str]:
        tables = {one: self._names.table(one) for one in ("jobs", "outbox", "claims")}
        return (statement.format(**tables, **values) for statement in statements)


def text_of(data: bytes) -> str | bytes:
    """A text as SQLite has it, which need not be UTF-8: then its bytes are compared."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def error_line(error: Any) -> str:
    """What a job or a message failed with, in one line."""
    if error is None:
        return ""
    told = json.loads(bytes(error))
    return " ".join(f"{told.get('type', '')}: {told.get('message', '')}".split())


def original_copy_path(path: Path) -> Path:
    """Where the state of a file is kept during a proof."""
    return path.with_name(f"{path.name}{COPY_SUFFIX}")


def restore_copy(copy: Path, path: Path, *, lasting: bool = False) -> None:
    """Bring a file to a state that was kept."""
    if copy.stat().st_size == 0:
        remove_database(path)
    else:
        copy_database(copy, path, lasting=lasting)


def remove_database(path: Path) -> None:
    """Remove a database with everything that SQLite puts beside it."""
    for companion in COMPANIONS:
        Path(f"{path}{companion}").unlink(missing_ok=True)


def copy_database(source: Path, target: Path, *, lasting: bool = False) -> None:
    """Make one file say what the other says, in one transaction."""
    until = time.monotonic() + BUSY

    def refuse_locked(status: int, *_: int) -> None:
        """SQLite would try for ever."""
        if status in LOCKED and time.monotonic() > until:
            raise UsageError(
                f"{source} cannot be copied to {target}: another process has locked one of them"
            )

    with closing(connect(source)) as reading, closing(connect(target)) as writing:
        if not lasting:
            writing.execute("PRAGMA synchronous = OFF")  # the copy is not needed after a power cut
        reading.backup(writing, progress=refuse_locked)
        if lasting:  # a mode is kept by the file, and no part of what is copied
            [mode] = reading.execute("PRAGMA journal_mode").fetchone()
            writing.execute(f"PRAGMA journal_mode = {mode}")


def describe_table(connection: sqlite3.Connection, name: str) -> Table:
    """A table by what SQLite says of it."""
    # With the generated columns, which a SELECT shows as well.
    found = connection.execute(f"PRAGMA table_xinfo({quote_name(name)})").fetchall()
    key = tuple(row[1] for row in sorted(found, key=lambda row: row[5]) if row[5])
    # SQLite numbers the rows through such a column.
    numbered = {row[1] for row in found if key == (row[1],) and row[2].upper() == "INTEGER"}
    return Table(name, tuple(Column(row[1], row[1] in numbered) for row in found), key)


def rows_of(connection: sqlite3.Connection, table: Table) -> Rows:
    """Every row, in the order in which it was written."""
    found = connection.execute(f"SELECT * FROM {quote_name(table.name)}").fetchall()  # noqa: S608
    return [{name: row[name] for name in row.keys()} for row in found]  # noqa: SIM118


def quote_name(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'
