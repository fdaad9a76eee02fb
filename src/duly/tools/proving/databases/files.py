"""The SQLite files of a proof: which there are, how each was before, and whose turn it is.

A list of them lies beside duly's own file while a proof lasts, locked by the prover. A list that
nobody has locked was left by a proof that was ended in the middle. It is not worked off: somebody
may have used the file since, and what was kept would take that away.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Misuse
from duly.tools.proving.databases.sqlite import SqliteBase, beside

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from duly._kernel.options import Names

LIST = ".duly-prove"
# Seconds for a process that was killed to be gone.
GOING = 5.0


@contextmanager
def listed(database: Path) -> Iterator[Path]:
    """The list of a proof of this database, which nobody else may use meanwhile."""
    path = database.with_name(f"{database.name}{LIST}")
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Misuse(f"another proof is using {database}: wait until it is over") from None
        refuse_left(path)
        file.truncate(0)
        try:
            yield path
        finally:
            path.unlink()


def refuse_left(path: Path) -> None:
    """Refuse where a proof was ended in the middle: only a person knows which state is the one."""
    left = read_list(path)
    if left:
        told = "; ".join(f"{file} (before: {beside(file)})" for file in left)
        raise Misuse(
            f"a proof was ended in the middle and left this as one of its cases made it: {told}. "
            "Move the state before over it, or remove that, whichever you want to keep; then "
            f"remove {path}"
        )


def refuse_in_use(database: Path, session: int) -> None:
    """Refuse a file that somebody else has open: a proof would undo what they are told is done.

    ``session`` is that of the proof's own processes. Where the system does not tell who has which
    file open, nobody is seen.
    """
    until = time.monotonic() + GOING
    while (user := next(users_of(database, session), None)) is not None:
        if time.monotonic() > until:
            raise Misuse(f"{database} is in use by process {user}: stop it, or prove on a copy")
        time.sleep(0.05)


def users_of(database: Path, session: int) -> Iterator[int]:
    """The processes that have a file open, but for this one and those of the session."""
    for process in Path("/proc").glob("[0-9]*"):
        number = int(process.name)
        with suppress(OSError):  # it has ended, or it is somebody else's
            ours = number == os.getpid() or os.getsid(number) == session
            if not ours and str(database) in map(os.readlink, process.glob("fd/*")):
                yield number


def read_list(path: Path) -> list[Path]:
    """The files on a list whose state was kept."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [Path(json.loads(line)) for line in lines]
    return [file for file in found if beside(file).exists()]


def found_files(path: Path, names: Names) -> list[SqliteBase]:
    """The files that were met, with the state in which they were before."""
    return [SqliteBase(file, names) for file in read_list(path)]


class Finder:
    """Copies each file just before the first statement that could change it.

    It runs in the process whose connections they are, and at a moment when that process has no lock
    on the file: closing a copy would give it up.
    """

    def __init__(self, path: Path, database: str = "", allowed: Collection[Any] = ()) -> None:
        self._path = path
        self._database = database
        self._allowed = allowed
        self._known: set[str] = set()

    def met(self, connection: Any) -> None:
        """A connection is about to be used for the first time."""
        if not isinstance(connection, sqlite3.Connection):
            self._refuse_another(connection)
            return
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        for _, _, file in cursor.execute("PRAGMA database_list").fetchall():
            if file and file not in self._known:
                self._known.add(file)
                self._copy(Path(file))

    def _refuse_another(self, connection: Any) -> None:
        """Refuse a server's database that is not duly's: nobody could put it back."""
        name, where = reached(connection)
        if name != self._database and where not in self._allowed:
            raise Misuse(
                f"the handler uses the PostgreSQL database {name!r}, which is not the one of "
                "duly's tables and cannot be put back: use one database, or allow its server with "
                f"--let-through {where[0]}:{where[1]} and see to its state yourself"
            )

    def _copy(self, file: Path) -> None:
        copy = beside(file)
        copy.touch()  # empty: there was no file
        for companion in ("", "-wal", "-journal"):
            if Path(f"{file}{companion}").exists():
                shutil.copyfile(f"{file}{companion}", f"{copy}{companion}")
        with self._path.open("a") as told:
            told.write(f"{json.dumps(str(file))}\n")


def reached(connection: Any) -> tuple[str, tuple[str, int]]:
    """The database that a connection of psycopg or asyncpg leads to, and its server."""
    info = getattr(connection, "info", None)
    if info is not None:
        return info.dbname, (info.host, info.port)
    address = connection._addr  # a path where it is a socket of this machine
    where = address if isinstance(address, tuple) else (str(address), 0)
    return connection._params.database, where
