"""Numbers that SQLite gives out can be moved on, and nothing else about a table is another."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from duly.prove.databases.numbering import shift_all_numbers
from duly.prove.databases.sqlite import connect

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def next_number(path: Path, declaration: str) -> int:
    """The number of the next row of a table, after its numbers were moved on."""
    with closing(connect(path)) as connection:
        connection.execute(declaration)
        connection.execute("INSERT INTO t (a) VALUES ('old')")
        shift_all_numbers(connection)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [("old",)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        cursor = connection.execute("INSERT INTO t (a) VALUES ('new')")
        return int(cursor.lastrowid or 0)


@pytest.mark.parametrize(
    "declaration",
    [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
        "CREATE TABLE t (id INTEGER CONSTRAINT k PRIMARY KEY ASC ON CONFLICT ABORT NOT NULL, a)",
        'CREATE TABLE "t" ("id" integer NOT NULL, a, PRIMARY KEY ("id"))',
        "CREATE TABLE t (id INTEGER /* PRIMARY KEY */ primary key, a DEFAULT 'PRIMARY KEY')",
    ],
)
def test_numbers_go_on_from_elsewhere(declaration: str, tmp_path: Path) -> None:
    assert next_number(tmp_path / "a.db", declaration) > 1000


@pytest.mark.parametrize(
    "declaration",
    [
        "CREATE TABLE t (id TEXT PRIMARY KEY, a)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a)",
        "CREATE TABLE t (id INTEGER, b INTEGER, a, PRIMARY KEY (id, b))",
    ],
)
def test_a_table_whose_key_is_no_number_of_a_row_is_left_alone(
    declaration: str, tmp_path: Path
) -> None:
    assert next_number(tmp_path / "a.db", declaration) == 2


def test_a_table_that_never_had_a_row_is_moved_on_as_well(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)")
        shift_all_numbers(connection)
        [(number,)] = connection.execute("INSERT INTO t (a) VALUES (1) RETURNING id").fetchall()
    assert number > 1000
