"""Promises to code that awaits: cancellations, many event loops, and a thread that is busy."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest

import duly
from duly.stores.sqlite.thread import SqliteThread
from tests.support.processes.leading import until
from tests.support.watching import nobody_else_is_connected

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = timedelta(seconds=1)
# Waits of a second each: one after the other they take longer than any busy machine together.
CALLS = 20


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


async def cancel_at_every_await(task: asyncio.Task[object]) -> None:
    """What a cancel scope does: cancel again and again, until the task has ended."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


async def test_a_caller_cancelled_again_and_again_has_claimed_nothing(url: str, scope: str) -> None:
    async with duly.store(url) as store:
        await duly.aio.dedup(store, scope, "warm up")
        for number in range(60):
            calls: list[asyncio.Task[object]] = [
                asyncio.create_task(duly.aio.dedup(store, scope, f"one-{number}")),
                asyncio.create_task(duly.aio.dedup_many(store, scope, [f"many-{number}"])),
            ]
            await asyncio.sleep(number * 0.0001)
            await asyncio.gather(*map(cancel_at_every_await, calls))
            for call, key in zip(calls, (f"one-{number}", f"many-{number}"), strict=True):
                answer = await duly.aio.dedup(store, scope, key)
                assert answer.first == call.cancelled()


async def test_a_leased_turn_cancelled_again_and_again_is_given_back(url: str, scope: str) -> None:
    async def take(key: str) -> None:
        async with duly.aio.once(store, scope, key, lease=timedelta(hours=1)):
            await asyncio.sleep(3600)

    async with duly.store(url) as store:
        for number in range(30):
            call = asyncio.create_task(take(f"evt_{number}"))
            await asyncio.sleep(number * 0.0002)
            await cancel_at_every_await(call)
            assert (await duly.aio.dedup(store, scope, f"evt_{number}")).first


def test_one_store_serves_any_number_of_event_loops_and_keeps_none_of_their_connections(
    own_postgres_url: str, scope: str
) -> None:
    with duly.store(own_postgres_url) as store:
        for number in range(25):
            assert asyncio.run(duly.aio.dedup(store, scope, str(number))).first

        async def close() -> None:
            await store.aclose()

        asyncio.run(close())
    assert until(lambda: nobody_else_is_connected(own_postgres_url))


@pytest.fixture
def write_lock(sqlite_url: str) -> Iterator[sqlite3.Connection]:
    """Somebody else, who holds SQLite's only write lock."""
    duly.store(sqlite_url).open().close()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


async def test_the_time_in_the_queue_is_part_of_the_wait(
    sqlite_url: str, write_lock: sqlite3.Connection
) -> None:
    async with duly.store(sqlite_url) as store:
        begun = time.monotonic()
        outcomes = await asyncio.gather(
            *(duly.aio.dedup(store, "s", str(n), wait=SECOND) for n in range(CALLS)),
            return_exceptions=True,
        )
        took = time.monotonic() - begun

    assert [type(outcome) for outcome in outcomes] == [duly.errors.InProgress] * CALLS
    assert took < CALLS / 2, "calls must not wait one after the other"


async def test_a_call_cancelled_in_the_queue_is_never_made() -> None:
    thread, made, first_may_end = SqliteThread(), [], threading.Event()
    first = asyncio.create_task(thread.run(first_may_end.wait))
    await asyncio.sleep(0)
    second = asyncio.create_task(thread.run(lambda: made.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    first_may_end.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    thread.close()
    assert made == []


def test_a_thread_that_is_closed_while_it_is_asked_answers_all_the_same() -> None:
    thread, done = SqliteThread(), threading.Event()

    def close_again_and_again() -> None:
        while not done.is_set():
            thread.close()

    async def ask() -> list[int]:
        return [await asyncio.wait_for(thread.run(partial(int, n)), 20) for n in range(500)]

    closing = threading.Thread(target=close_again_and_again)
    closing.start()
    try:
        assert asyncio.run(ask()) == list(range(500))
    finally:
        done.set()
        closing.join()
        thread.close()


@pytest.mark.parametrize("nth", range(1, 8))
async def test_a_cancelled_inner_turn_does_not_catch_the_rollback_of_the_outer(
    sqlite_url: str, nth: int
) -> None:
    async with aiosqlite.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        await duly.aio.migrate(connection)
        await connection.execute("CREATE TABLE work (n INTEGER)")
        await connection.commit()
        with pytest.raises(ZeroDivisionError):
            async with duly.aio.once(connection, "s", "outer"):
                await connection.execute("INSERT INTO work VALUES (1)")
                await cancelled_at_statement(nth, connection)
                raise ZeroDivisionError
        await connection.commit()
        assert (await duly.aio.dedup(connection, "s", "outer")).first
        async with connection.execute("SELECT count(*) FROM work") as cursor:
            assert await cursor.fetchone() == (0,)
        await connection.rollback()


async def cancelled_at_statement(nth: int, connection: Any) -> None:
    """Begin an inner turn, and cancel it while its n-th statement is under way."""

    async def inner() -> None:
        async with duly.aio.once(connection, "s", "inner"):
            pass

    plain, statements = connection._execute, count(1)
    turn = asyncio.ensure_future(inner())

    async def counted(function: Any, *positional: Any, **options: Any) -> Any:
        if next(statements) == nth:
            asyncio.get_running_loop().call_soon(turn.cancel)
        return await plain(function, *positional, **options)

    connection._execute = counted  # where each statement passes
    with suppress(asyncio.CancelledError):
        await turn
    connection._execute = plain
