"""The numbers that SQLite gives to rows: lets them go on from elsewhere, wherever it can.

A plain INTEGER PRIMARY KEY goes on from the highest number that is there. With AUTOINCREMENT it
goes on from one that is written down, so for one run such tables are declared with it: nothing else
about them is another then, and the declaration is put back with the rest.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from duly.prove.databases.base import SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = """
SELECT name, sql FROM sqlite_master
 WHERE type = 'table' AND sql LIKE '%PRIMARY%KEY%' AND sql NOT LIKE 'CREATE VIRTUAL%'
"""
# A name that is not in use.
FIRST = "first_table_with_numbers_of_duly_prove"
# Beyond this SQLite looks for free numbers by chance.
HIGHEST = 1 << 62
QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/"""
KEY = re.compile(
    rf"{QUOTED}|(?P<key>\bPRIMARY\s+KEY\b)"
    r"(?:\s*\((?P<column>[^()]*)\)|(?P<rest>(?:\s+(?:ASC|DESC))?(?:\s+ON\s+CONFLICT\s+\w+)?))",
    re.IGNORECASE | re.DOTALL,
)


def shift_all_numbers(connection: sqlite3.Connection) -> None:
    """Let every number that SQLite gives out go on from elsewhere."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        declared = dict(numbered_tables(connection))
        if declared:
            # SQLite makes its list of numbers with the first table that needs it, and keeps it.
            connection.execute(f"CREATE TABLE {FIRST} (n INTEGER PRIMARY KEY AUTOINCREMENT)")
            connection.execute(f"DROP TABLE {FIRST}")
            rewrite_declarations(connection, declared)
            ensure_sequence_rows(connection, list(declared))
            connection.execute("UPDATE sqlite_sequence SET seq = seq + ?", [SHIFT])
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def numbered_tables(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """The tables whose rows SQLite numbers, and how each would be declared with AUTOINCREMENT."""
    for name, declaration in connection.execute(TABLES).fetchall():
        if re.search(r"\bAUTOINCREMENT\b", declaration, re.IGNORECASE):
            yield str(name), declaration
            continue
        changed = with_autoincrement(declaration)
        with suppress(sqlite3.Error), closing(sqlite3.connect(":memory:")) as trial:
            trial.execute(changed)  # which is refused where SQLite does not number the rows
            yield str(name), changed


def with_autoincrement(declaration: str) -> str:
    """A declaration whose numbers are written down."""

    def add_autoincrement(found: re.Match[str]) -> str:
        if found["key"] is None:
            return found[0]
        if found["column"] is not None:
            return f"{found['key']} ({found['column']} AUTOINCREMENT)"
        return f"{found['key']}{found['rest']} AUTOINCREMENT"

    return KEY.sub(add_autoincrement, declaration)


def rewrite_declarations(connection: sqlite3.Connection, declared: dict[str, str]) -> None:
    """Write down how tables are declared; what is in them stays as it is."""
    [version] = connection.execute("PRAGMA schema_version").fetchone()
    connection.execute("PRAGMA writable_schema = ON")
    # Some systems forbid it: numbers then go on from the highest, as they always do.
    with suppress(sqlite3.OperationalError):
        connection.executemany(
            "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?",
            [(declaration, name) for name, declaration in declared.items()],
        )
    connection.execute(f"PRAGMA schema_version = {version + 1}")
    connection.execute("PRAGMA writable_schema = OFF")


def ensure_sequence_rows(connection: sqlite3.Connection, tables: list[str]) -> None:
    """Let each table have a number to go on from, also if nothing was ever in it."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_sequence")}
    for name in tables:
        quoted = name.replace('"', '""')
        [highest] = connection.execute(f'SELECT max(rowid) FROM "{quoted}"').fetchone()  # noqa: S608
        if name not in known and (highest or 0) < HIGHEST:
            connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", [name, highest or 0])
