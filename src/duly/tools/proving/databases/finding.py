"""Which databases there are: duly's by its address, files when they are first used."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from duly.tools.proving.databases.sqlite import SqliteBase, SqliteStore, beside, recovered

if TYPE_CHECKING:
    from duly._kernel.options import Names
    from duly.tools.proving.databases.base import Base

MANIFEST = "files.jsonl"


def is_sqlite(url: str) -> bool:
    """Whether duly's tables are in a file."""
    return urlsplit(url).scheme == "sqlite"


def file_of(url: str) -> Path:
    """The file that an address of duly's means."""
    return Path(unquote(urlsplit(url).path.removeprefix("/"))).absolute()


def store_of(url: str, names: Names) -> Any:
    """Duly's own tables, wherever they are."""
    if is_sqlite(url):
        return SqliteStore(url, file_of(url), names)
    from duly.tools.proving.databases.postgres import PostgresStore

    return PostgresStore(url, names)


def base_of(url: str, names: Names, *, disposable: bool) -> Base | None:
    """The database of duly's tables, ready for cases; files are found when they are first used."""
    if is_sqlite(url):
        recovered(file_of(url))
        return None
    from duly.tools.proving.databases.postgres import PostgresBase

    return PostgresBase(url, names, disposable=disposable)


class Finder:
    """Copies each SQLite file just before the first statement that could change it.

    It runs in the process whose connections they are, and at a moment when that process has no lock
    on the file: closing a copy would give it up.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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

    def _copy(self, path: Path) -> None:
        copy = beside(path)
        copy.touch()  # empty: there was no file
        for companion in ("", "-wal", "-journal"):
            if Path(f"{path}{companion}").exists():
                shutil.copyfile(f"{path}{companion}", f"{copy}{companion}")
        with (self._folder / MANIFEST).open("a") as manifest:
            manifest.write(f"{json.dumps(str(path))}\n")


def found_files(folder: Path, names: Names) -> list[SqliteBase]:
    """The files that were met, with the state in which they were before."""
    manifest = folder / MANIFEST
    lines = manifest.read_text().splitlines() if manifest.exists() else []
    return [SqliteBase(Path(json.loads(line)), names) for line in lines]
