"""A connection is taken from code that does not let go of it, and from nobody else."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.stores.revocable_connection import RevocableConnection
from duly.stores.sqlite.connection import connect
from tests.stores.join.places import Place
from tests.support.processes.forked import run_forked
from tests.support.processes.leading import PATIENCE, ROOT
from tests.support.processes.revoked import MOMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duly.core.session import Session

KINDS = ["sqlite", "memory", "postgres"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> Iterator[duly.types.Store]:
    """A store with one connection for code that blocks, where that can be said."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        made = duly.store(url, connections=1)
    elif request.param == "sqlite":
        made = duly.store(request.getfixturevalue("sqlite_url"))
    else:
        made = duly.store("memory:")
    with made:
        yield made


async def one(session: Session) -> int:
    """Somebody's work."""
    [row] = await session.execute("SELECT 1 AS one", {})
    found: int = row["one"]
    return found


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_loan_that_is_over_takes_nothing_away(exclusive: bool) -> None:
    taken: list[str] = []
    with RevocableConnection(lambda: taken.append("away"), exclusive=exclusive) as loan:
        assert not loan.revoked
    loan.revoke()

    assert taken == []
    assert not loan.revoked


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_loan_that_lasts_takes_its_connection_away(exclusive: bool) -> None:
    taken: list[str] = []
    with RevocableConnection(lambda: taken.append("away"), exclusive=exclusive) as loan:
        loan.revoke()
        assert taken == ["away"]

    assert loan.revoked  # for whoever lends: not to lend such a connection again


def test_an_exclusive_loan_does_not_end_while_it_is_revoked() -> None:
    taking, taken, over = threading.Event(), threading.Event(), threading.Event()

    def take_away() -> None:
        taking.set()
        assert taken.wait(PATIENCE)
        assert not over.is_set()

    loan = RevocableConnection(take_away, exclusive=True)

    def use() -> None:
        with loan:
            assert taking.wait(PATIENCE)
        over.set()

    threads = [threading.Thread(target=loan.revoke), threading.Thread(target=use)]
    for thread in threads:
        thread.start()
    assert taking.wait(PATIENCE)
    assert not over.wait(0.05)
    taken.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert over.is_set()


def test_a_revocation_that_comes_late_does_not_reach_the_next_user(store: duly.types.Store) -> None:
    first = store.sync_runner.open_transaction(wait=WAIT)
    late = finish(first.__aenter__()).revoke
    finish(first.__aexit__(None, None, None))

    second = store.sync_runner.open_transaction(wait=WAIT)
    opened = finish(second.__aenter__())
    revoking = threading.Timer(0.05, late)
    revoking.start()
    if store.url.startswith("postgresql:"):
        opened.connection.execute("SELECT pg_sleep(0.2)")  # a server cancels what it is doing
    revoking.join(PATIENCE)
    rows = opened.connection.execute("SELECT 1").fetchall()
    finish(second.__aexit__(None, None, None))

    assert [tuple(row) for row in rows] == [(1,)]
    assert finish(store.sync_runner.run(one, wait=WAIT)) == 1


async def test_a_late_revocation_does_not_reach_the_next_one_who_awaits(
    store: duly.types.Store,
) -> None:
    async with store.async_runner.open_transaction(wait=WAIT) as first:
        late = first.revoke
    async with store.async_runner.open_transaction(wait=WAIT) as opened:
        revoking = threading.Timer(0.05, late)
        revoking.start()
        if store.url.startswith("postgresql:"):
            await opened.session.execute("SELECT pg_sleep(0.2)", {})
        await asyncio.to_thread(revoking.join, PATIENCE)
        assert await one(opened.session) == 1
    assert await store.async_runner.run(one, wait=WAIT) == 1
    await store.aclose()


def test_whoever_comes_after_a_revocation_finds_a_sound_connection(store: duly.types.Store) -> None:
    for _ in range(5):
        opening = store.sync_runner.open_transaction(wait=WAIT)
        opened = finish(opening.__aenter__())
        opened.revoke()
        problem = ValueError("it learns too late")
        assert not finish(opening.__aexit__(ValueError, problem, None))
        assert finish(store.sync_runner.run(one, wait=WAIT)) == 1


# Each returns a cursor of its own.
CALLS: dict[str, Callable[[sqlite3.Connection], sqlite3.Cursor]] = {
    "cursor": lambda connection: connection.cursor().execute("SELECT 1"),
    "execute": lambda connection: connection.execute("SELECT 1"),
    "executemany": lambda connection: connection.executemany(INSERT, [(1,), (2,)]),
    "executescript": lambda connection: connection.executescript("SELECT 1; SELECT 2"),
}
INSERT = "INSERT INTO stuff VALUES (?)"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_cursor_goes_into_sqlite_on_a_connection_that_was_taken_away(
    call: Callable[[sqlite3.Connection], sqlite3.Cursor], tmp_path: Path
) -> None:
    connection = connect(tmp_path / "duly.db", durable=False, wait=WAIT)
    connection.execute("CREATE TABLE stuff (x integer)")
    cursor = call(connection)
    connection.revoked_by = threading.get_ident() + 1  # another thread is in SQLite with it
    with pytest.raises(sqlite3.ProgrammingError, match="taken away"):
        cursor.fetchall()
    connection.revoked_by = None
    connection.close()


def test_a_busy_handler_that_is_given_up_crashes_nothing_and_leaves_nothing(
    sqlite_url: str,
) -> None:
    ended = run_forked(
        [sys.executable, "-m", "tests.support.processes.revoked", sqlite_url],
        cwd=ROOT,
        timeout=PATIENCE,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    place = Place(sqlite_url)
    assert place.rows("SELECT count(*) FROM stuff") == [(0,)]
    assert place.rows("SELECT count(*) FROM neighbours") == [(len(MOMENTS),)]
