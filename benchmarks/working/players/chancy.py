"""chancy: the asynchronous executor, a hundred at once, and asking again as soon as one is done.

A queue without ``eager_polling`` takes one batch for each poll; a hundred is the executor's own
default. Acknowledgements are written once a second, as it comes.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chancy import Chancy, Job, Queue, Worker  # type: ignore[import-not-found]
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.working.begun import BEGUN
from benchmarks.working.playing import ORDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed'))"
POOLS: list[AsyncConnectionPool] = []


async def noop(number: int) -> None:
    BEGUN.note(number)


async def update(number: int) -> None:
    BEGUN.note(number)
    async with POOLS[0].connection() as connection:
        await connection.execute("UPDATE accounts SET visits = visits + 1 WHERE id = %s", (number,))


FUNCTIONS = {"noop": noop, "update": update}


@asynccontextmanager
async def opened(url: str, connections: int = 4) -> AsyncIterator[Any]:
    quiet = logging.getLogger("chancy")  # it logs a line for each job
    quiet.setLevel(logging.WARNING)
    async with Chancy(url, max_connection_pool_size=connections, log=quiet) as chancy:
        yield chancy


async def prepare(url: str) -> None:
    async with opened(url) as chancy:
        await chancy.migrate()


async def work(url: str, settings: dict[str, int]) -> None:
    connections = settings["connections"]
    queue = Queue(
        "default",
        concurrency=settings["at_once"],
        executor=Chancy.Executor.Async,
        polling_interval=1,
        eager_polling=True,
    )
    async with (
        AsyncConnectionPool(url, open=False, min_size=1, max_size=connections) as pool,
        opened(url, connections) as chancy,
    ):
        POOLS.append(pool)
        await chancy.declare(queue, upsert=True)
        async with Worker(chancy) as worker:
            await worker.wait_for_shutdown()


def job(kind: Kind, number: int) -> Any:
    return Job.from_func(FUNCTIONS[kind], kwargs={"number": number})


class Enqueuer:
    """Jobs are pushed."""

    def __init__(self, chancy: Any) -> None:
        self._chancy = chancy

    async def one(self, kind: Kind, number: int) -> None:
        """Through its pool."""
        await self._chancy.push(job(kind, number))

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """In one transaction."""
        async for _ in self._chancy.push_many([job(kind, number) for number in numbers]):
            pass

    async def within(self, kind: Kind, number: int) -> None:
        """On the caller's cursor."""
        async with (
            self._chancy.pool.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(ORDER, (number,))
            await self._chancy.push_many_ex(cursor, [job(kind, number)])


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    async with opened(url) as chancy:
        yield Enqueuer(chancy)
