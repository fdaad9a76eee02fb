"""Whoever watches sees every statement of every driver, once, before and after it is run."""

from __future__ import annotations

import asyncio
import io
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy

from duly.prove.steps import Step, watching

if TYPE_CHECKING:
    from pathlib import Path


class Notes:
    """A watcher that writes down what it is told, and fails where it is asked to."""

    def __init__(self, fail_before: str = "", fail_after: str = "") -> None:
        self.seen: list[tuple[str, str]] = []
        self.numbers: list[int] = []
        self._fails = {"before": fail_before, "after": fail_after}

    def before(self, step: Step) -> None:
        self.numbers.append(step.number)
        self._note("before", step)

    def after(self, step: Step) -> None:
        self._note("after", step)

    def _note(self, side: str, step: Step) -> None:
        self.seen.append((side, step.text))
        if step.text == self._fails[side]:
            raise LookupError(side)

    @property
    def texts(self) -> list[str]:
        """The statements, after a look at whether each was told of twice, as it should be."""
        before = [text for side, text in self.seen if side == "before"]
        assert self.seen == [
            each for text in before for each in (("before", text), ("after", text))
        ]
        assert self.numbers == list(range(len(before)))
        return before


SQLITE = ["CREATE TABLE t (a)", "INSERT INTO t VALUES (?)", "COMMIT", "SELECT a FROM t"]


def test_statements_of_sqlite3_are_seen_through_connection_and_cursor(tmp_path: Path) -> None:
    notes = Notes()
    with watching(notes):
        connection = sqlite3.connect(tmp_path / "one.db")
        connection.cursor().execute("CREATE TABLE t (a)")
        with connection:
            connection.execute("INSERT INTO t VALUES (?)", (1,))
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
        connection.commit()  # there is nothing to commit
        connection.close()
    assert notes.texts == SQLITE


def test_statements_of_aiosqlite_and_sqlalchemy_are_seen_too(tmp_path: Path) -> None:
    async def awaited() -> None:
        async with aiosqlite.connect(tmp_path / "one.db") as connection:
            await connection.execute("CREATE TABLE t (a)")
            await connection.execute("INSERT INTO t VALUES (?)", (1,))
            await connection.commit()
            await connection.execute_fetchall("SELECT a FROM t")

    notes = Notes()
    with watching(notes):
        asyncio.run(awaited())
    assert notes.texts == SQLITE

    notes = Notes()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/two.db")
    with watching(notes), engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (a)"))
        connection.execute(sqlalchemy.text("INSERT INTO t VALUES (1)"))
    engine.dispose()
    assert notes.texts[-3:] == ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "COMMIT"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="connections have no autocommit before 3.12")
def test_what_ends_a_transaction_is_seen_where_the_driver_keeps_one_open(tmp_path: Path) -> None:
    notes = Notes()
    with watching(notes):
        options: dict[str, Any] = {"autocommit": False}
        connection: Any = sqlite3.connect(tmp_path / "one.db", **options)
        connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        assert connection.in_transaction
        connection.autocommit = True
        connection.close()
    assert notes.texts == ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "COMMIT"]


SCRIPT = """
-- a note; with a semicolon
CREATE TABLE t (a);
CREATE TRIGGER seen AFTER INSERT ON t BEGIN UPDATE t SET a = 'x;y'; UPDATE t SET a = a || '!'; END;
BEGIN; INSERT INTO t VALUES (1); SELECT * FROM t; COMMIT;
INSERT INTO t VALUES (2) /* the last */; -- nothing;
"""
TOLD = ["CREATE TABLE", "CREATE TRIGGER", "BEGIN", "INSERT", "SELECT", "COMMIT", "INSERT"]


@pytest.mark.parametrize("level", ["", None])
@pytest.mark.parametrize("by", ["connection", "cursor"])
def test_each_statement_of_a_script_is_seen(by: str, level: Any, tmp_path: Path) -> None:
    notes = Notes()
    with watching(notes):
        connection = sqlite3.connect(tmp_path / "one.db", isolation_level=level)
        connection.execute("CREATE TABLE u (a)")
        connection.execute("BEGIN")
        asked: Any = connection if by == "connection" else connection.cursor()
        assert isinstance(asked.executescript(SCRIPT), sqlite3.Cursor)
        assert connection.isolation_level == level
        connection.close()

    ended, *script = notes.texts[2:]
    assert ended == "COMMIT"
    assert [
        text for text, told in zip(script, TOLD, strict=True) if not text.startswith(told)
    ] == []
    with closing(sqlite3.connect(tmp_path / "one.db")) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [("x;y!",), ("x;y!",)]


def test_a_script_leaves_a_transaction_open_that_it_has_begun(tmp_path: Path) -> None:
    with watching(Notes()), closing(sqlite3.connect(tmp_path / "one.db")) as connection:
        connection.executescript("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1)")
        assert connection.in_transaction
        with pytest.raises(sqlite3.OperationalError):
            connection.executescript("INSERT INTO t VALUES (2); INSERT INTO nobody VALUES (1);")
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,), (2,)]


def test_what_is_written_through_a_blob_is_seen_and_what_ends_a_transaction_by_the_way(
    tmp_path: Path,
) -> None:
    notes = Notes()
    with watching(notes):
        connection = sqlite3.connect(tmp_path / "one.db")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (zeroblob(4))")
        connection.isolation_level = None
        opened: Any = connection.blobopen("t", "a", 1)
        with opened as blob:
            blob.write(b"ab")
            blob[2:4] = b"cd"
            assert (len(blob), blob[0:4], blob.tell()) == (4, b"abcd", 2)
        connection.blobopen("t", "a", 1, readonly=True).close()
        assert connection.execute("SELECT a FROM t").fetchall() == [(b"abcd",)]
        connection.close()
    assert notes.texts[2] == "COMMIT"
    assert notes.texts[3:-1] == ["UPDATE t SET a = (a part of it)"] * 3


BLOCKS = ["BEGIN", "SELECT 1", "SAVEPOINT", "SELECT 2", "RELEASE SAVEPOINT", "COMMIT", "SELECT 3"]


def test_statements_of_psycopg_are_seen_with_the_ends_of_their_transactions(
    postgres_url: str,
) -> None:
    notes = Notes()
    with psycopg.connect(postgres_url) as connection, watching(notes):
        with connection.transaction():
            connection.execute("SELECT 1")
            with connection.transaction():
                connection.execute("SELECT 2")
        connection.execute("SELECT 3")
        connection.rollback()
    assert notes.texts == [*BLOCKS, "ROLLBACK"]


def test_statements_of_awaited_psycopg_are_seen_with_the_ends_of_their_transactions(
    postgres_url: str,
) -> None:
    async def awaited() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            with watching(notes):
                async with connection.transaction():
                    await connection.execute("SELECT 1")
                    async with connection.transaction():
                        await connection.execute("SELECT 2")
                await connection.execute("SELECT 3")
                await connection.commit()

    notes = Notes()
    asyncio.run(awaited())
    assert notes.texts == [*BLOCKS, "COMMIT"]


def test_statements_of_asyncpg_are_seen_with_the_ends_of_their_transactions(
    postgres_url: str,
) -> None:
    async def awaited() -> None:
        connection = await asyncpg.connect(postgres_url)
        with watching(notes):
            async with connection.transaction():
                await connection.fetch("SELECT $1::int", 1)
                await connection.execute("SELECT 2")
                prepared = await connection.prepare("SELECT 3")
                await prepared.fetch()
        await connection.close()

    notes = Notes()
    asyncio.run(awaited())
    assert notes.texts == ["BEGIN", "SELECT $1::int", "SELECT 2", "SELECT 3", "COMMIT"]


COPY = "COPY t FROM STDIN"


def test_a_copy_of_psycopg_is_seen_when_it_takes_effect(postgres_url: str) -> None:
    notes = Notes()
    with psycopg.connect(postgres_url, autocommit=True) as connection, watching(notes):
        connection.execute("CREATE TEMPORARY TABLE t (a int)")
        with connection.cursor().copy(COPY) as copy:
            copy.write_row((1,))
            assert COPY not in [text for _, text in notes.seen]
        with connection.cursor().copy("COPY t TO STDOUT") as copy:
            assert [*copy.rows()] == [("1",)]
    assert notes.texts[1:] == [COPY, "COPY t TO STDOUT"]


def test_an_awaited_copy_of_psycopg_is_seen_as_well(postgres_url: str) -> None:
    async def awaited() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            with watching(notes):
                await connection.execute("CREATE TEMPORARY TABLE t (a int)")
                async with connection.cursor().copy(COPY) as copy:
                    await copy.write_row((1,))
                await connection.rollback()

    notes = Notes()
    asyncio.run(awaited())
    assert notes.texts[1:] == [COPY, "ROLLBACK"]


def test_copies_prepared_statements_and_cursors_of_asyncpg_are_seen(postgres_url: str) -> None:
    async def awaited() -> None:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute("CREATE TEMPORARY TABLE t (a int)")
        with watching(notes):
            await connection.copy_records_to_table("t", records=[(1,)])
            await connection.copy_to_table("t", source=io.BytesIO(b"2\n"))
            await connection.copy_from_table("t", output=io.BytesIO())
            prepared = await connection.prepare("INSERT INTO t VALUES ($1)")
            await prepared.executemany([(3,), (4,)])
            async with connection.transaction():
                [row async for row in connection.cursor("DELETE FROM t RETURNING a")]
        await connection.close()

    notes = Notes()
    asyncio.run(awaited())
    assert notes.texts == [
        COPY,
        'COPY "t" FROM STDIN',
        'COPY "t" TO STDOUT',
        "INSERT INTO t VALUES ($1)",
        "BEGIN",
        "DELETE FROM t RETURNING a",
        "COMMIT",
    ]


@pytest.mark.parametrize(("side", "there"), [("before", []), ("after", [(1,)])])
def test_what_a_watcher_raises_the_statement_raises_on_the_side_it_was_raised(
    tmp_path: Path, side: str, there: list[tuple[int]]
) -> None:
    text = "INSERT INTO t VALUES (1)"
    notes = Notes(**{f"fail_{side}": text})
    connection = sqlite3.connect(tmp_path / "one.db", isolation_level=None)
    connection.execute("CREATE TABLE t (a)")
    with watching(notes):
        other = sqlite3.connect(tmp_path / "one.db", isolation_level=None)
        with pytest.raises(LookupError, match=side):
            other.execute(text)
        other.close()
    assert connection.execute("SELECT a FROM t").fetchall() == there
    connection.close()


def test_after_the_block_nothing_is_watched_any_more(tmp_path: Path) -> None:
    notes = Notes()
    connect = sqlite3.connect
    with watching(notes):
        assert sqlite3.connect is not connect
    assert sqlite3.connect is sqlite3.dbapi2.connect is connect
    sqlite3.connect(tmp_path / "one.db").close()
    assert notes.seen == []
