"""The SQLite files of a proof: which there are, how each was before, and whose turn it is.

A list of them lies beside duly's own file while a proof lasts, locked by the prover. A list that
nobody has locked was left by a proof that was ended in the middle, and is worked off first.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Misuse
from duly.tools.proving.databases.sqlite import SqliteBase, beside, put_back, removed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._kernel.options import Names

LIST = ".duly-prove"


@contextmanager
def listed(database: Path) -> Iterator[Path]:
    """The list of a proof of this database, which nobody else may use meanwhile."""
    path = database.with_name(f"{database.name}{LIST}")
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Misuse(f"another proof is using {database}: wait until it is over") from None
        for left in read_list(path):
            put_back(beside(left), left)
            removed(beside(left))
        file.truncate(0)
        try:
            yield path
        finally:
            path.unlink()


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

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()

    def met(self, connection: Any) -> None:
        """A connection is about to be used for the first time."""
        if not isinstance(connection, sqlite3.Connection):
            return
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        for _, _, file in cursor.execute("PRAGMA database_list").fetchall():
            if file and file not in self._known:
                self._known.add(file)
                self._copy(Path(file))

    def _copy(self, file: Path) -> None:
        copy = beside(file)
        copy.touch()  # empty: there was no file
        for companion in ("", "-wal", "-journal"):
            if Path(f"{file}{companion}").exists():
                shutil.copyfile(f"{file}{companion}", f"{copy}{companion}")
        with self._path.open("a") as told:
            told.write(f"{json.dumps(str(file))}\n")
