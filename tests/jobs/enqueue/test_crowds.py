"""A hundred callers with one key, each in a transaction of their own, half of which roll back.

On PostgreSQL every transaction is open before the first of them enqueues. SQLite has one writer:
there they all ask for the lock at the same time.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiosqlite
import asyncpg
import psycopg
import pytest

import duly
from tests.jobs.enqueue.desks import CASES, Case
from tests.stores.join.places import Place, settle_in
from tests.stores.join.sqlite_handles import path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

CROWD = 100
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """What one caller was told, and whether they committed."""

    committed: bool
    answer: duly.types.Enqueued


def send_receipt(job: duly.Job) -> None:
    """Never run here."""


@contextmanager
def a_queue(url: str, name: str) -> Iterator[duly.Duly]:
    app = duly.Duly(url)
    app.job(name=name)(send_receipt)
    yield app
    app.close()


def note(scope: str, number: int, moment: str) -> str:
    """The user's own work around the enqueue, unique over all tests."""
    return f"INSERT INTO notes (scope, note) VALUES ('{scope}', '{moment} {number} {scope}')"


def keeps(number: int) -> bool:
    """Every other one commits."""
    return number % 2 == 0


def together(place: Place, scope: str) -> list[Told]:
    """Callers on threads, with connections that block."""
    ready = threading.Barrier(CROWD, timeout=PATIENCE)

    def call(number: int) -> Told:
        with closing(connected(place)) as connection:
            if place.is_sqlite:
                ready.wait()
            connection.execute("BEGIN IMMEDIATE" if place.is_sqlite else "BEGIN")
            connection.execute(note(scope, number, "before"))
            if not place.is_sqlite:
                ready.wait()
            answer = app.enqueue(scope, number, key="receipt-1", tx=connection)
            connection.execute(note(scope, number, "after"))
            connection.execute("COMMIT" if keeps(number) else "ROLLBACK")
        return Told(keeps(number), answer)

    with a_queue(place.url, scope) as app, ThreadPoolExecutor(CROWD) as threads:
        return list(threads.map(call, range(CROWD)))


def connected(place: Place) -> Any:
    """A connection that begins when told."""
    if place.is_sqlite:
        return sqlite3.connect(path_of(place.url), isolation_level=None, timeout=PATIENCE)
    return psycopg.connect(place.url, autocommit=True)


async def together_awaited(place: Place, scope: str) -> list[Told]:
    """Callers in tasks, with connections that are awaited."""
    ready = asyncio.Barrier(CROWD)

    async def call(number: int) -> Told:
        async with connected_awaited(place) as connection:
            if place.is_sqlite:
                await ready.wait()
            await connection.execute("BEGIN IMMEDIATE" if place.is_sqlite else "BEGIN")
            await connection.execute(note(scope, number, "before"))
            if not place.is_sqlite:
                await ready.wait()
            answer = await app.aio.enqueue(scope, number, key="receipt-1", tx=connection)
            await connection.execute(note(scope, number, "after"))
            await connection.execute("COMMIT" if keeps(number) else "ROLLBACK")
        return Told(keeps(number), answer)

    with a_queue(place.url, scope) as app:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*map(call, range(CROWD)))


@asynccontextmanager
async def connected_awaited(place: Place) -> AsyncIterator[Any]:
    """The same, awaited."""
    connection: Any
    if place.is_sqlite:
        path = path_of(place.url)
        connection = await aiosqlite.connect(path, isolation_level=None, timeout=PATIENCE)
    else:
        connection = await asyncpg.connect(place.url)
    try:
        yield connection
    finally:
        await connection.close()


def agreed(place: Place, scope: str, told: list[Told]) -> None:
    """One job; whoever committed knows it; nobody's own work was harmed."""
    [(job, payload)] = place.rows(f"SELECT id, payload FROM duly_jobs WHERE name = '{scope}'")
    committed = [one.answer for one in told if one.committed]
    assert {answer.id for answer in committed} == {str(job)}
    assert [answer.first for answer in committed].count(True) == 1
    [owner] = [number for number, one in enumerate(told) if one.committed and one.answer.first]
    assert bytes(payload) == str(owner).encode()
    assert place.claims(f"job:{scope}") == ["receipt-1"]
    kept = filter(keeps, range(CROWD))
    assert place.notes(scope) == sorted(
        f"{moment} {number} {scope}" for number in kept for moment in ("before", "after")
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_hundred_open_transactions_with_one_key_make_one_job(
    kind: str, colour: str, scope: str, request: pytest.FixtureRequest
) -> None:
    place = settle_in(request.getfixturevalue(f"{kind}_url"))

    if colour == "sync":
        told = together(place, scope)
    else:
        told = asyncio.run(together_awaited(place, scope))

    assert len(told) == CROWD
    agreed(place, scope, told)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_callers_without_a_transaction_agree_on_one_job_too(
    case: Case, request: pytest.FixtureRequest
) -> None:
    with case.open(request) as desk:
        desk.job(lambda _: None)
        if case.colour == "sync":
            with ThreadPoolExecutor(20) as threads:
                told = list(threads.map(lambda _: desk.enqueue(key="receipt-1"), range(40)))
        else:

            async def together() -> list[duly.types.Enqueued]:
                calls = (desk.app.aio.enqueue(desk.name, key="receipt-1") for _ in range(40))
                return await asyncio.gather(*calls)

            told = desk.call(together)

        assert [answer.first for answer in told].count(True) == 1
        assert desk.jobs() == [(told[0].id, "ready")]
        assert {answer.id for answer in told} == {told[0].id}


def test_a_caller_waits_for_the_first_and_takes_its_place_where_that_one_rolls_back(
    postgres_url: str, scope: str
) -> None:
    place = settle_in(postgres_url)
    with (
        a_queue(place.url, scope) as app,
        closing(connected(place)) as one,
        closing(connected(place)) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        one.execute("BEGIN")
        other.execute("BEGIN")
        lost = app.enqueue(scope, "lost", key="receipt-1", tx=one)
        waiting = thread.submit(app.enqueue, scope, "kept", key="receipt-1", tx=other)
        assert not waiting.done()
        one.execute("ROLLBACK")
        kept = waiting.result(PATIENCE)
        other.execute("COMMIT")

    assert lost.first
    assert kept.first
    assert place.rows(f"SELECT payload FROM duly_jobs WHERE name = '{scope}'") == [(b'"kept"',)]
