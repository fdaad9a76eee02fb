"""A COMMIT of SQLite that went through and was reported as failed is no claim that nobody works on.

SQLite cannot lose a reply on a wire, but a disk can fail a sync whose data it keeps. duly does not
run the transaction again there: it undoes what may be in the file, and says that the store failed.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.stores.sqlite import writer

MINUTE = timedelta(minutes=1)


class Unheard(sqlite3.Connection):
    """A connection on which one write succeeds and is reported as a failure of the disk."""

    left = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        done = super().execute(sql, *values)
        if sql == "COMMIT":
            fail_if_asked()
        return done

    def cursor(self, *_: Any) -> "UnheardCursor":  # type: ignore[override]  # any factory is its own
        return super().cursor(UnheardCursor)


class UnheardCursor(sqlite3.Cursor):
    """What a statement that commits by itself wrote is there; its caller hears of an error."""

    def executemany(self, sql: str, each: Any, /) -> "UnheardCursor":
        super().executemany(sql, each)
        if self.rowcount > 0 and not self.connection.in_transaction:
            fail_if_asked()
        return self

    def fetchall(self) -> list[Any]:
        rows = super().fetchall()
        if rows and not self.connection.in_transaction:
            fail_if_asked()
        return rows


def fail_if_asked() -> None:
    if Unheard.left:
        Unheard.left -= 1
        problem = sqlite3.OperationalError("disk I/O error")
        problem.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise problem


def connect_unheard(path: Path, **options: object) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Unheard)


@pytest.fixture
def store(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[duly.types.Store]:
    """A store on a sound file, whose next write can be made to seem failed."""
    monkeypatch.setattr(writer, "connect", connect_unheard)
    with duly.store(sqlite_url) as opened:
        yield opened
    assert Unheard.left == 0, "nothing failed"


def fails_once(call: Callable[[], object]) -> None:
    """The call reports the failure of the disk."""
    Unheard.left = 1
    with pytest.raises(duly.errors.StoreUnavailable, match="disk I/O error"):
        call()


def test_dedup_says_that_the_store_failed_and_has_claimed_nothing(store: duly.types.Store) -> None:
    fails_once(lambda: duly.dedup(store, "shop", "a"))
    assert duly.dedup(store, "shop", "a").first
    assert duly.dedup(store, "shop", "a").duplicate


def test_awaited_dedup_says_so_too(store: duly.types.Store) -> None:
    fails_once(lambda: asyncio.run(duly.aio.dedup(store, "shop", "a")))
    assert duly.dedup(store, "shop", "a").first


def test_dedup_many_has_claimed_none_of_its_batch(store: duly.types.Store) -> None:
    fails_once(lambda: duly.dedup_many(store, "shop", ["a", "b"]))
    assert [answer.first for answer in duly.dedup_many(store, "shop", ["a", "b"])] == [True, True]


def test_a_lease_that_was_taken_unheard_is_given_back(store: duly.types.Store) -> None:
    fails_once(lambda: duly.once(store, "shop", "a", lease=MINUTE).__enter__())
    with duly.once(store, "shop", "a", lease=MINUTE) as turn:
        assert turn.first


def test_a_mark_that_went_through_unheard_is_kept_and_its_work_not_repeated(
    store: duly.types.Store,
) -> None:
    def mark_unheard() -> None:
        with duly.once(store, "shop", "a", lease=MINUTE) as turn:
            Unheard.left = 1
            turn.mark("done")

    with pytest.raises(duly.errors.StoreUnavailable, match="disk I/O error"):
        mark_unheard()
    assert duly.fence(store, "shop", "a", lambda: pytest.fail("a second effect")) == "done"
