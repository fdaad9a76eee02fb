"""PgQueuer: asyncpg, batches of the size that is asked for, all tables logged.

The one connection that its documentation shows was as fast here as a pool, or faster.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from pgqueuer import Job, PgQueuer, Queries  # type: ignore[import-not-found]

from benchmarks.working.begun import BEGUN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM pgqueuer)"


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def work(url: str, settings: dict[str, int]) -> None:
    connection = await asyncpg.connect(url)
    async with asyncpg.create_pool(url, min_size=1, max_size=settings["connections"]) as pool:
        queuer = PgQueuer.from_asyncpg_connection(connection)

        async def noop(job: Job) -> None:
            BEGUN.note(int(job.payload))

        async def update(job: Job) -> None:
            number = int(job.payload)
            BEGUN.note(number)
            await pool.execute("UPDATE accounts SET visits = visits + 1 WHERE id = $1", number)

        queuer.entrypoint("noop")(noop)
        queuer.entrypoint("update")(update)
        await queuer.run(batch_size=settings["batch"])


class Enqueuer:
    """On one connection, in its transaction or in none."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._queries = Queries.from_asyncpg_connection(connection)

    async def one(self, kind: Kind, number: int) -> None:
        """A statement that commits itself."""
        await self._queries.enqueue(kind, b"%d" % number)

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Lists."""
        await self._queries.enqueue(
            [kind] * len(numbers), [b"%d" % number for number in numbers], [0] * len(numbers)
        )

    async def within(self, kind: Kind, number: int) -> None:
        """The same connection in a transaction."""
        async with self._connection.transaction():
            await self._connection.execute("INSERT INTO orders (id) VALUES ($1)", number)
            await self._queries.enqueue(kind, b"%d" % number)


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    connection = await asyncpg.connect(url)
    yield Enqueuer(connection)
    await connection.close()
