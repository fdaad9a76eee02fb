"""A duplicate is found by a look: without the write lock, and never where a look would bind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest

import duly
from duly.errors import InProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.types import Store

NO_WAIT = timedelta(0)
HOUR = timedelta(hours=1)


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    with duly.store(sqlite_url) as opened:
        yield opened


@pytest.fixture
def writer(store: Store) -> Iterator[sqlite3.Connection]:
    """Another connection, which has the write lock while its transaction is open."""
    with closing(connect(store)) as other:
        yield other


def connect(store: Store) -> sqlite3.Connection:
    path = store.url.removeprefix("sqlite:///")
    return sqlite3.connect(path, timeout=0, isolation_level=None)


@pytest.mark.promise("one first")
def test_a_duplicate_is_answered_while_another_connection_writes(
    store: Store, writer: sqlite3.Connection
) -> None:
    assert duly.dedup(store, "shop", "a").first
    assert duly.fence(store, "shop", "b", lambda: "done") == "done"
    writer.execute("BEGIN IMMEDIATE")

    assert duly.dedup(store, "shop", "a", wait=NO_WAIT).duplicate
    assert asyncio.run(duly.aio.dedup(store, "shop", "a", wait=NO_WAIT)).duplicate
    assert duly.fence(store, "shop", "b", do_again, wait=NO_WAIT) == "done"
    with pytest.raises(InProgress, match="write lock"):
        duly.dedup(store, "shop", "new", wait=NO_WAIT)


def do_again() -> str:
    pytest.fail("its work was done")


@pytest.mark.promise("one first")
def test_a_live_lease_is_told_while_another_connection_writes(
    store: Store, writer: sqlite3.Connection
) -> None:
    with duly.once(store, "shop", "a", lease=HOUR) as turn:
        assert turn.first
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(InProgress, match="lease") as told:
            duly.dedup(store, "shop", "a", wait=NO_WAIT)
        writer.execute("ROLLBACK")
    assert told.value.retry_after is not None
    assert timedelta(minutes=59) < told.value.retry_after <= HOUR


@pytest.mark.promise("one first")
def test_a_claim_that_is_not_committed_yet_is_no_duplicate(
    store: Store, writer: sqlite3.Connection
) -> None:
    writer.execute("BEGIN IMMEDIATE")
    assert duly.dedup(writer, "shop", "a").first
    with pytest.raises(InProgress, match="write lock"):
        duly.dedup(store, "shop", "a", wait=NO_WAIT)
    writer.execute("ROLLBACK")
    assert duly.dedup(store, "shop", "a", wait=NO_WAIT).first
    writer.execute("BEGIN IMMEDIATE")
    assert duly.dedup(writer, "shop", "a").duplicate


@pytest.mark.promise("one first")
def test_of_two_that_looked_before_either_wrote_one_is_first(store: Store) -> None:
    """The other process commits between the look of this one and its insert."""
    beside = store.apart()
    between = [lambda: duly.dedup(beside, "shop", "a")]
    first: list[bool] = []

    def look_around(text: str) -> None:
        if text.startswith("INSERT") and between:
            first.append(between.pop()().first)

    with beside:
        with store._writer.hold(HOUR) as connection:  # type: ignore[attr-defined]  # of SQLite
            connection.set_trace_callback(look_around)
        first.append(duly.dedup(store, "shop", "a").first)
    assert first == [True, False]


@pytest.mark.promise("one transaction")
def test_in_the_callers_transaction_nothing_is_read_before_it_writes(store: Store) -> None:
    """A look would hold a deferred transaction to what it saw, and its write would be refused."""
    with closing(connect(store)) as mine:
        commits = [lambda: duly.dedup(store, "shop", "other")]

        def commit_between(text: str) -> None:
            if text.lstrip().startswith("INSERT") and commits:
                assert commits.pop()().first

        mine.set_trace_callback(commit_between)
        mine.execute("BEGIN")
        assert duly.dedup(mine, "shop", "a").first
        mine.execute("COMMIT")
        assert not commits
    assert duly.dedup(store, "shop", "a").duplicate


@pytest.mark.promise("one transaction")
def test_no_two_open_savepoints_share_a_name(store: Store) -> None:
    said: list[str] = []
    with closing(connect(store)) as mine:
        mine.set_trace_callback(said.append)
        for turn in "ab":
            mine.execute("BEGIN IMMEDIATE")
            with duly.once(mine, "shop", f"{turn}-outer"):
                with pytest.raises(LookupError), duly.once(mine, "shop", f"{turn}-inner"):
                    raise LookupError
                inner = duly.once(mine, "shop", f"{turn}-inner")
                with inner as again:
                    assert again.first, "what was inside is undone"
            mine.execute("COMMIT")
    opened = [text.split()[-1] for text in said if text.startswith("SAVEPOINT")]
    assert len(opened) == 6
    assert opened[0] != opened[1]
    assert opened[0] != opened[2]
    assert set(opened[3:]) == set(opened[:3]), "used again after their release"


@pytest.mark.promise("one transaction")
async def test_a_savepoint_that_was_opened_for_a_cancelled_caller_keeps_its_name(
    store: Store,
) -> None:
    path = store.url.removeprefix("sqlite:///")
    async with aiosqlite.connect(path, isolation_level=None) as mine:
        said: list[str] = []
        await mine.set_trace_callback(said.append)
        await mine.execute("BEGIN IMMEDIATE")
        go_on, held = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold_up() -> None:
            loop.call_soon_threadsafe(held.set)
            assert go_on.wait(10)

        thread: Any = mine  # its thread has no public way to be held up
        busy = asyncio.ensure_future(thread._execute(hold_up))
        await held.wait()
        waiting = asyncio.ensure_future(enter(mine))
        await asyncio.sleep(0)
        assert not mine._tx.empty(), "its SAVEPOINT is queued behind what keeps the thread busy"
        waiting.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await busy
        async with duly.aio.once(mine, "shop", "b") as turn:
            assert turn.first
        await mine.execute("COMMIT")
    opened = [text.split()[-1] for text in said if text.startswith("SAVEPOINT")]
    assert len(opened) == 2
    assert len(set(opened)) == 2


async def enter(connection: aiosqlite.Connection) -> None:
    async with duly.aio.once(connection, "shop", "a"):
        pytest.fail("it was cancelled before")
