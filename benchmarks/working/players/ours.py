"""duly as a user would write it: a job that does nothing, one with ``tx``, one for many at once.

All are plain functions. A hundred at once, as the others have; twenty transactions may be open at
the same time, and two more connections are for taking and settling.
"""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg

import duly
from benchmarks.working.begun import BEGUN
from benchmarks.working.playing import ORDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM duly_jobs)"
# How many jobs a bulk handler is given in one transaction, at most.
MANY = 100


def application(url: str, connections: int = 10) -> duly.Duly:
    app = duly.Duly(url, connections=connections)
    app.job(noop)
    app.job(update)
    if takes_many():
        options: dict[str, Any] = {"name": "update-bulk", "many": MANY}
        app.job(**options)(update_in_bulk)
    return app


def takes_many() -> bool:
    """Whether this duly has bulk handlers."""
    return "many" in inspect.signature(duly.Duly.job).parameters


def noop(job: duly.Job) -> None:
    BEGUN.note(number_of(job.payload))


def update(job: duly.Job, tx: duly.Tx) -> None:
    number = number_of(job.payload)
    BEGUN.note(number)
    tx.execute("UPDATE accounts SET visits = visits + 1 WHERE id = :id", id=number)


def update_in_bulk(jobs: Sequence[duly.Job], tx: duly.Tx) -> None:
    numbers = [number_of(job.payload) for job in jobs]
    for number in numbers:
        BEGUN.note(number)
    tx.execute("UPDATE accounts SET visits = visits + 1 WHERE id = ANY(:ids)", ids=numbers)


def number_of(payload: Any) -> int:
    number: int = payload["number"]
    return number


async def prepare(url: str) -> None:
    duly.store(url).migrate()


async def work(url: str, settings: dict[str, int]) -> None:
    app = application(url, settings["connections"])
    await app.aio.work(until="stopped", concurrency=settings["at_once"])


class Enqueuer:
    """The verbs that block; the caller's transaction is psycopg's."""

    def __init__(self, app: duly.Duly, connection: psycopg.Connection[Any]) -> None:
        self._app, self._connection = app, connection

    async def one(self, kind: Kind, number: int) -> None:
        """Committed on return."""
        self._app.enqueue(kind, {"number": number})

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """One statement."""
        self._app.enqueue_many(kind, [{"number": number} for number in numbers])

    async def within(self, kind: Kind, number: int) -> None:
        """On the caller's connection."""
        with self._connection.transaction():
            self._connection.execute(ORDER, (number,))
            self._app.enqueue(kind, {"number": number}, tx=self._connection)


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    app = application(url)
    with psycopg.connect(url) as connection:
        yield Enqueuer(app, connection)
    app.close()
