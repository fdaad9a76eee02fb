"""SQLite's troubles: a write lock that somebody keeps, a full disk, a commit reported as failed."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.stores.sqlite import writer
from duly.stores.sqlite.connection import WriterConnection
from tests.receiver.faults.doors import PATIENCE
from tests.receiver.faults.shops import Mode, Shop
from tests.support.processes import Worker

pytestmark = pytest.mark.slow

# The wait for the lock is bounded by two seconds; deliveries that go alone go one after another.
# The rest is what a busy machine adds.
BOUND = 20.0


def test_a_write_lock_that_another_process_keeps_is_told_in_time(
    sqlite_url: str, way: str, mode: Mode
) -> None:
    with Shop(sqlite_url, way, mode) as shop, Worker(sqlite_url) as other:
        shop.warm()
        assert other.reply() == "ready"
        assert other.ask("begin") == "begun"
        deliveries = [shop.delivery() for _ in range(3)]
        begun = time.monotonic()
        answers = shop.post_all(deliveries)
        assert time.monotonic() - begun < BOUND
        assert all(answer.come_again for answer in answers)
        assert {answer.said for answer in answers} == {"HELD"}
        assert other.ask("commit") == "committed"
        assert {shop.post(delivery).said for delivery in deliveries} == {"accepted"}


def test_a_full_disk_is_told_and_forgotten_when_there_is_room_again(
    sqlite_url: str, way: str, mode: Mode
) -> None:
    with Shop(sqlite_url, way, mode) as shop:
        shop.warm()
        deliveries = [shop.delivery(kind="x" * 3000) for _ in range(20)]
        resize(shop, 4)
        answers = shop.post_all(deliveries)
        refused = [answer for answer in answers if answer.status != 200]
        assert refused, "the disk was not full"
        assert all(answer.come_again for answer in refused)
        assert {answer.said for answer in refused} == {"STORE_UNAVAILABLE"}
        assert shop.books.ask("PRAGMA integrity_check") == [("ok",)]
        resize(shop, 10_000)
        said = {shop.post(delivery).said for delivery in deliveries}
        assert "accepted" in said
        assert said <= {"accepted", "duplicate"}


def resize(shop: Shop, pages: int) -> None:
    """Leave room for so many more pages: what SQLite says then is what it says of a full disk."""
    connection = shop.app.store._writer._connection  # type: ignore[attr-defined]
    [there] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {there + pages}")


class Unheard(WriterConnection):
    """A connection on which the commit of an event succeeds and is reported as a failed sync."""

    # The number of events at which it fails, which tells that commit from those that only count.
    at: int | None = None

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        done = super().execute(sql, *values)
        if sql == "COMMIT" and Unheard.at is not None:
            [there] = super().execute("SELECT count(*) FROM duly_events").fetchone()
            if there == Unheard.at:
                Unheard.at = None
                problem = sqlite3.OperationalError("disk I/O error")
                problem.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                raise problem
        return done


def connect_unheard(path: Path, **_: object) -> WriterConnection:
    """Nothing is told apart from a sound connection, but one commit."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Unheard)


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections on which one commit can go unheard."""
    monkeypatch.setattr(writer, "connect", connect_unheard)
    yield
    Unheard.at = None


def test_a_commit_that_was_reported_as_failed_is_a_duplicate_when_it_comes_again(
    sqlite_url: str, way: str, mode: Mode, unheard: None
) -> None:
    with Shop(sqlite_url, way, mode) as shop:
        shop.warm()
        delivery = shop.delivery()
        Unheard.at = 2
        answer = shop.send(delivery).result(PATIENCE)
        assert Unheard.at is None, "no commit went unheard"
        assert answer.come_again, answer
        assert shop.post(delivery).said == "duplicate"
