"""A process is killed after every statement that takes effect by itself, however it was sent."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest

import duly
from duly.prove.assertion import assert_effectively_once
from duly.prove.mistakes import MARK_FIRST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

TABLES = ("CREATE TABLE seen (id TEXT)", "CREATE TABLE work (id TEXT)")
SEEN, WORK = "INSERT INTO seen VALUES ('o-1')", "INSERT INTO work VALUES ('o-1')"


def story(app: duly.Duly, work: Callable[[], Any], only: str = "kill:4") -> str:
    """What is said of a handler that marks its event before it does the work.

    Before this case it is killed when it was enqueued, when it was taken, and before its question.
    """
    app.job(name="order", attempts=3)(work)
    with pytest.raises(AssertionError) as failed:
        assert_effectively_once(app, job="order", disposable=True, only=only)
    told = " ".join(str(failed.value).split())
    assert f"not safe to repeat: {MARK_FIRST}" in told
    return told


@pytest.mark.parametrize(
    ("scripts", "only"),
    [
        ((f"{SEEN}; {WORK};",), "kill:4"),
        ((f"BEGIN; {SEEN}; COMMIT;", f"/* and */ BEGIN; {WORK}; COMMIT;"), "kill:5"),
    ],
)
def test_a_statement_of_a_script_is_one(
    scripts: tuple[str, ...], only: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        for table in TABLES:
            connection.execute(table)

    def work() -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as own:
            if own.execute("SELECT id FROM seen").fetchone() is None:
                for script in scripts:
                    own.executescript(script)

    app = duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")
    assert f"killed after {SEEN}" in story(app, work, only)


@pytest.fixture
def url(own_postgres_url: str) -> str:
    with psycopg.connect(own_postgres_url) as connection:
        for table in TABLES:
            connection.execute(table)
    return own_postgres_url


def test_a_copy_by_psycopg_is_one(url: str) -> None:
    def work() -> None:
        with psycopg.connect(url, autocommit=True) as own:
            if own.execute("SELECT id FROM seen").fetchone() is None:
                for table in ("seen", "work"):
                    with own.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                        copy.write_row(("o-1",))

    assert "killed after COPY seen FROM STDIN" in story(duly.Duly(url), work)


def test_a_copy_by_asyncpg_is_one(url: str) -> None:
    async def work() -> None:
        own = await asyncpg.connect(url)
        if await own.fetchrow("SELECT id FROM seen") is None:
            for table in ("seen", "work"):
                await own.copy_records_to_table(table, records=[("o-1",)])
        await own.close()

    assert "killed after COPY seen FROM STDIN" in story(duly.Duly(url), work)


def test_a_text_that_holds_a_whole_transaction_is_one(url: str) -> None:
    def work() -> None:
        with psycopg.connect(url, autocommit=True) as own:
            if own.execute("SELECT id FROM seen").fetchone() is None:
                own.execute(f"BEGIN; {SEEN}; COMMIT")
                own.execute(f"SET application_name = 'shop'; {WORK}")

    assert f"killed after BEGIN; {SEEN}; COMMIT" in story(duly.Duly(url), work)
