"""The folder of one run: the database that all workers share, and what they complain about."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import duly

if TYPE_CHECKING:
    from collections.abc import Iterator

# No uniqueness anywhere: only the ledger stands between an event and a second effect.
TABLES = """
CREATE TABLE effects (event TEXT NOT NULL, amount INTEGER NOT NULL, epoch INTEGER NOT NULL);
CREATE TABLE accounts (name TEXT NOT NULL, balance INTEGER NOT NULL);
INSERT INTO accounts VALUES ('shop', 0);
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the workers work, and whether it outlives them."""

    folder: Path
    keep: bool = False

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.folder / "demo.db"

    @property
    def errors(self) -> Path:
        """What workers write to their standard error."""
        return self.folder / "errors.txt"


@contextmanager
def new_place(*, keep: bool) -> Iterator[Place]:
    """A new folder with an empty database in it, removed at the end unless it is to be kept."""
    place = Place(Path(tempfile.mkdtemp(prefix="duly-demo-")), keep)
    try:
        prepare(place)
        yield place
    finally:
        if not keep:
            shutil.rmtree(place.folder, ignore_errors=True)


def prepare(place: Place) -> None:
    """Make the tables, and close: no SQLite connection may be open when workers are forked."""
    with duly.store(address(place.database)):
        pass
    with closing(sqlite3.connect(place.database)) as connection:
        connection.executescript(TABLES)


def address(database: Path) -> str:
    """The address of a database file as `duly.store` wants it."""
    return "sqlite:///" + quote(str(database))
