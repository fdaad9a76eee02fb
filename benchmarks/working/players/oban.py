"""Oban for Python: asynchronous workers, a queue of a hundred at once, acknowledged in batches."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from oban import Oban, worker  # type: ignore[import-not-found]
from oban.schema import install  # type: ignore[import-not-found]
from psycopg_pool import AsyncConnectionPool

from benchmarks.working.begun import BEGUN
from benchmarks.working.playing import ORDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM oban_jobs WHERE state IN ('available', 'executing'))"
POOLS: list[AsyncConnectionPool] = []


class Noop:
    """Begins, and that is all."""

    async def process(self, job: Any) -> None:
        """Nothing."""
        BEGUN.note(job.args["number"])


class Update:
    """One UPDATE in a commit of its own."""

    async def process(self, job: Any) -> None:
        """Through the pool of the handlers."""
        number = job.args["number"]
        BEGUN.note(number)
        async with POOLS[0].connection() as connection:
            await connection.execute(
                "UPDATE accounts SET visits = visits + 1 WHERE id = %s", (number,)
            )


WORKERS: dict[str, Any] = {
    "noop": worker(queue="default")(Noop),
    "update": worker(queue="default")(Update),
}


@asynccontextmanager
async def pooled(url: str, connections: int = 4) -> AsyncIterator[AsyncConnectionPool]:
    async with AsyncConnectionPool(url, open=False, min_size=1, max_size=connections) as pool:
        POOLS.append(pool)
        yield pool


async def prepare(url: str) -> None:
    async with pooled(url) as pool:
        await install(pool)


async def work(url: str, settings: dict[str, int]) -> None:
    async with pooled(url, settings["connections"]) as pool:
        await Oban(pool=pool, queues={"default": settings["at_once"]}).start()
        await asyncio.Event().wait()


class Enqueuer:
    """An instance without queues enqueues only."""

    def __init__(self, client: Any, pool: AsyncConnectionPool) -> None:
        self._client, self._pool = client, pool

    async def one(self, kind: Kind, number: int) -> None:
        """Through its pool."""
        await self._client.enqueue(WORKERS[kind].new({"number": number}))

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """In one call."""
        await self._client.enqueue_many(WORKERS[kind].new({"number": n}) for n in numbers)

    async def within(self, kind: Kind, number: int) -> None:
        """On the caller's connection."""
        async with self._pool.connection() as connection:
            await connection.execute(ORDER, (number,))
            await self._client.enqueue(WORKERS[kind].new({"number": number}), conn=connection)


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    async with pooled(url) as pool, Oban(pool=pool) as client:
        yield Enqueuer(client, pool)
