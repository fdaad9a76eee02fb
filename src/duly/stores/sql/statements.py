"""Named SQL files, loaded once; ``{claims}`` in them becomes the checked table name."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from duly.stores.sql.placeholders import Prepared, Style, prepare

if TYPE_CHECKING:
    from duly.core.defaults import Names
    from duly.core.session import Dialect

TABLES = (
    *("claims", "versions", "meta"),
    *("events", "deliveries", "jobs", "workers", "counters"),
    *("history", "effects", "schedules"),
    "outbox",
)
SLOT = re.compile(r"\{(\w+)\}")


class Statements:
    """All statements of one dialect, in one driver's spelling, over one set of table names."""

    def __init__(self, dialect: Dialect, names: Names, style: Style) -> None:
        self.dialect: Dialect = dialect
        self.names = names
        self.style: Style = style
        self._prepared: dict[str, Prepared] = {}
        self._without_rows: dict[str, str] = {}

    def __getitem__(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            text = fill_slots(statement_text(self.dialect, name), self.dialect, self.names)
            found = self._prepared[name] = prepare(text, self.style)
        return found

    def without_rows(self, name: str) -> str:
        """The text without its RETURNING, for SQLite."""
        found = self._without_rows.get(name)
        if found is None:
            found = self._without_rows[name] = cut_returning(self[name].text)
        return found


@lru_cache(maxsize=256)
def statements(dialect: Dialect, names: Names, style: Style) -> Statements:
    """The statements for a connection; the same object for the same arguments."""
    return Statements(dialect, names, style)


@lru_cache(maxsize=256)
def statement_text(dialect: Dialect, name: str) -> str:
    """One file without its opening comment and its indentation, which are for readers.

    psycopg remembers how to read a statement only if it has at most 4,096 characters.
    """
    lines = read_sql_file(dialect, "statements", f"{name}.sql").splitlines()
    while lines and lines[0].startswith("--"):
        del lines[0]
    return "\n".join(line.strip() for line in lines).strip()


def cut_returning(text: str) -> str:
    """A statement of SQLite without its RETURNING, which is always the last clause."""
    before, clause, _ = text.rpartition("RETURNING ")
    return before.rstrip() if clause else text


def read_sql_file(dialect: Dialect, folder: str, file: str) -> str:
    """The text of a file that ships with the package."""
    return (files("duly.stores") / dialect / folder / file).read_text(encoding="utf-8")


def fill_slots(text: str, dialect: Dialect, names: Names) -> str:
    """Put table names and fragments in their slots; an unknown slot is a bug."""

    def slot(found: re.Match[str]) -> str:
        word = found[1]
        if word in TABLES:
            return names.table(word)
        if word == "prefix":
            return names.prefix
        if word == "schema":
            return "" if names.schema is None else f'"{names.schema}".'
        return fill_slots(statement_text(dialect, f"_{word}"), dialect, names)

    return SLOT.sub(slot, text)
