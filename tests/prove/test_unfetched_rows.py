"""Statements outside of a transaction whose rows are still to be fetched: who waits for them."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

import duly
from duly.core.defaults import names
from duly.prove.assertion import assert_effectively_once
from duly.prove.mistakes import MARK_FIRST
from duly.prove.recording import Refusals
from duly.prove.steps import Step, watching
from duly.prove.trace import MarkLog, StatementNames, read_marks
from duly.prove.watch import Watch
from tests.prove.proofs import proof, shop
from tests.prove.test_frameworks import DJANGO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duly.prove.loader import Subject

pytestmark = pytest.mark.slow

EVENT = {"type": "order.paid", "data": {"order": "o-1"}}
ONE = "INSERT INTO seen (event) VALUES ('o-1') RETURNING event"
TWO = "INSERT INTO seen (event) VALUES ('o-1'), ('o-2') RETURNING event"
MARK = "INSERT INTO seen (event) VALUES ('o-1') ON CONFLICT DO NOTHING RETURNING event"
PAY = "https://bank.example/charges"
AUTOCOMMIT: Any = {"isolation_level": "AUTOCOMMIT"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE seen (event TEXT PRIMARY KEY)")
    return path


def connected(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(database, isolation_level=None)


class Committed:
    """A watcher that looks, after each statement, at what others can see of it."""

    def __init__(self, database: Path) -> None:
        self.other = connected(database)
        self.seen: list[list[str]] = []

    def before(self, step: Step) -> None:
        """Nothing to see."""

    def after(self, step: Step) -> None:
        rows = self.other.execute("SELECT event FROM seen ORDER BY event").fetchall()
        self.seen.append([event for (event,) in rows])


@pytest.fixture
def watcher(database: Path) -> Iterator[Committed]:
    watcher = Committed(database)
    yield watcher
    watcher.other.close()


def iterate(cursor: sqlite3.Cursor) -> None:
    next(cursor)
    with suppress(StopIteration):
        next(cursor)


@pytest.mark.parametrize(
    "text", [ONE, TWO, f"WITH one AS (SELECT 1) {TWO}"], ids=["one", "two", "with"]
)
@pytest.mark.parametrize(
    "fetch",
    [
        sqlite3.Cursor.fetchall,
        lambda cursor: (cursor.fetchone(), cursor.fetchone()),
        lambda cursor: cursor.fetchmany(5),
        iterate,
        lambda cursor: cursor.close(),
        lambda cursor: cursor.connection.close(),
        lambda cursor: cursor.execute("SELECT 1"),
        lambda _: None,
    ],
    ids=["all", "each", "many", "iterated", "closed", "disconnected", "next", "dropped"],
)
def test_a_statement_is_over_when_others_can_see_what_it_did(
    database: Path, watcher: Committed, text: str, fetch: Callable[[sqlite3.Cursor], object]
) -> None:
    with watching(watcher), closing(connected(database)) as connection:
        fetch(connection.execute(text))
    assert watcher.seen[0] == ["o-1", "o-2"][: text.count("o-")]


def test_what_is_written_beside_rows_that_are_not_fetched_is_over_with_them(
    database: Path, watcher: Committed
) -> None:
    with watching(watcher), closing(connected(database)) as connection:
        rows = connection.execute(TWO)
        connection.execute("UPDATE seen SET event = 'o-3' WHERE event = 'o-1'")
        assert watcher.seen == []
        rows.fetchall()
        assert watcher.seen == [["o-2", "o-3"]] * 2


def test_nobody_is_paused_between_the_rows_of_a_statement(database: Path, tmp_path: Path) -> None:
    watch = Watch(Refusals())
    watch.begin(StatementNames(names()), MarkLog(tmp_path / "marks"), None)
    watch.phase = "work"
    with watching(watch), closing(connected(database)) as connection:
        rows = connection.execute(TWO)
        for _ in range(2):
            rows.fetchone()
            with watch.call(f"POST {PAY}"):
                """It is made while the write lock is held, and once more when it is not."""
    alone = [(mark.kind, mark.alone) for mark in read_marks(tmp_path / "marks")]
    assert alone == [("call", False), ("sql", True), ("call", True)]


def application(database: Path, handler: Callable[..., Any]) -> duly.Duly:
    app = duly.Duly(f"sqlite:///{database}")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "order.paid", name="handler")(handler)
    return app


def by_sqlite3(database: Path) -> Callable[..., Any]:
    def handler() -> None:
        with closing(connected(database)) as own:
            if own.execute(MARK).fetchone():
                httpx.post(PAY, headers={"Idempotency-Key": "o-1"})

    return handler


def by_sqlalchemy(database: Path) -> Callable[..., Any]:
    def handler() -> None:
        engine = sqlalchemy.create_engine(f"sqlite:///{database}", **AUTOCOMMIT)
        with engine.connect() as own:
            if own.execute(sqlalchemy.text(MARK)).first():
                httpx.post(PAY, headers={"Idempotency-Key": "o-1"})
        engine.dispose()

    return handler


def by_aiosqlite(database: Path) -> Callable[..., Any]:
    async def handler() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{database}", **AUTOCOMMIT)
        async with engine.connect() as own, httpx.AsyncClient() as client:
            if (await own.execute(sqlalchemy.text(MARK))).first():
                await client.post(PAY, headers={"Idempotency-Key": "o-1"})
        await engine.dispose()

    return handler


@pytest.mark.parametrize("made", [by_sqlite3, by_sqlalchemy, by_aiosqlite])
def test_a_mark_that_returns_rows_is_found_before_its_work(
    database: Path, made: Callable[[Path], Callable[..., Any]]
) -> None:
    app = application(database, made(database))
    with pytest.raises(AssertionError, match=MARK_FIRST) as failed:
        assert_effectively_once(app, EVENT, only="kill:3")
    told = " ".join(str(failed.value).split())
    assert f"killed after {MARK}: POST {PAY} was made not at all instead of once." in told
    app.close()


def test_a_mark_that_a_model_of_django_creates_is_found_before_its_work(tmp_path: Path) -> None:
    def load() -> Subject:
        subject = shop(DJANGO, str(tmp_path / "shop.db"))()
        from django.apps import apps

        orders = apps.get_model("django_shop", "Order").objects

        @subject.app.on("shop", "order.confirmed", name="handler")
        def handler(event: duly.Event) -> None:
            if not orders.filter(number=event.id).exists():
                orders.create(number=event.id)
                httpx.post(PAY, headers={"Idempotency-Key": event.id})

        return subject

    finding = proof(load, "confirmed", only="kill:4").finding

    assert finding is not None
    assert finding.mistake.name == MARK_FIRST
    assert 'killed after INSERT INTO "django_shop_order"' in finding.story


def test_a_worker_that_is_paused_after_it_does_not_hold_others_up(database: Path) -> None:
    def handler() -> None:
        with closing(connected(database)) as own:
            own.execute(MARK).fetchall()

    app = application(database, handler)
    assert_effectively_once(app, EVENT, only="pause:1")
    app.close()


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """Another file, without a write-ahead log: whoever reads it keeps others from committing."""
    path = tmp_path / "prices.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE prices (item TEXT PRIMARY KEY)")
        connection.execute("INSERT INTO prices VALUES ('cup'), ('pot')")
    return path


class Blocked:
    """A watcher that tries, after each statement, whether others can write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[tuple[str, bool]] = []

    def before(self, step: Step) -> None:
        """Nothing to see."""

    def after(self, step: Step) -> None:
        # Not one that is watched, and in this process: SQLite knows its own locks.
        with closing(sqlite3.Connection(self.path, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                self.seen.append((step.text, True))
            else:
                self.seen.append((step.text, False))


@pytest.mark.parametrize("text", ["SELECT item FROM prices", "VALUES (1), (2)"])
@pytest.mark.parametrize(
    "fetch",
    [
        sqlite3.Cursor.fetchall,
        lambda cursor: (cursor.fetchone(), cursor.fetchone(), cursor.fetchone()),
        lambda cursor: cursor.fetchone(),
        lambda cursor: cursor.close(),
        lambda cursor: cursor.connection.close(),
        lambda cursor: cursor.execute("SELECT 1 WHERE 0"),
        lambda _: None,
    ],
    ids=["all", "each", "first", "closed", "disconnected", "next", "dropped"],
)
def test_a_read_is_over_when_it_keeps_nobody_from_writing(
    prices: Path, text: str, fetch: Callable[[sqlite3.Cursor], object]
) -> None:
    watcher = Blocked(prices)
    with watching(watcher), closing(connected(prices)) as connection:
        fetch(connection.execute(text))
    assert watcher.seen[0] == (text, False)


def test_what_is_written_between_the_rows_of_a_read_is_told_of_at_once(prices: Path) -> None:
    watcher = Blocked(prices)
    renamed = "UPDATE prices SET item = 'mug' WHERE item = 'cup'"
    with watching(watcher), closing(connected(prices)) as connection:
        rows = connection.execute("SELECT item FROM prices")
        connection.execute(renamed)
        assert watcher.seen == [(renamed, True)]
        rows.fetchall()
    assert watcher.seen[1:] == [("SELECT item FROM prices", False)]


def test_a_worker_that_is_paused_at_a_read_does_not_hold_others_up(
    database: Path, prices: Path
) -> None:
    def handler() -> None:
        with closing(connected(prices)) as own:
            rows = own.execute("SELECT item FROM prices ORDER BY item")
            rows.fetchone()
            rows.close()
            own.execute("INSERT INTO prices VALUES ('mug') ON CONFLICT DO NOTHING")

    app = application(database, handler)
    assert_effectively_once(app, EVENT, only="pause:1")
    app.close()
