"""procrastinate: asynchronous tasks, as many at once as it has connections, woken by notification.

Its jobs are fetched and finished one by one: more than twenty at once were no faster here.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import procrastinate as library  # type: ignore[import-not-found]
from psycopg_pool import AsyncConnectionPool

from benchmarks.working.begun import BEGUN
from benchmarks.working.playing import ORDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"


def application(url: str, at_once: int = 4) -> tuple[Any, AsyncConnectionPool]:
    """The app with its tasks, and the pool in which the handlers do their work."""
    app = library.App(connector=library.PsycopgConnector(conninfo=url, max_size=at_once))
    pool = AsyncConnectionPool(url, open=False, min_size=1, max_size=at_once)

    async def noop(number: int) -> None:
        BEGUN.note(number)

    async def update(number: int) -> None:
        BEGUN.note(number)
        async with pool.connection() as connection:
            await connection.execute(
                "UPDATE accounts SET visits = visits + 1 WHERE id = %s", (number,)
            )

    app.task(noop, name="noop")
    app.task(update, name="update")
    return app, pool


async def prepare(url: str) -> None:
    app, _ = application(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def work(url: str, settings: dict[str, int]) -> None:
    app, pool = application(url, settings["at_once"])
    async with pool, app.open_async():
        await app.run_worker_async(concurrency=settings["at_once"], install_signal_handlers=False)


class Enqueuer:
    """Tasks are deferred."""

    def __init__(self, app: Any, pool: AsyncConnectionPool) -> None:
        self._app, self._pool = app, pool

    async def one(self, kind: Kind, number: int) -> None:
        """Through the connector's own pool."""
        await self._app.tasks[kind].defer_async(number=number)

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """One statement for all."""
        await self._app.tasks[kind].batch_defer_async(*({"number": number} for number in numbers))

    async def within(self, kind: Kind, number: int) -> None:
        """On the caller's connection."""
        async with self._pool.connection() as connection:
            await connection.execute(ORDER, (number,))
            await self._app.tasks[kind].configure(connection=connection).defer_async(number=number)


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    app, pool = application(url)
    async with pool, app.open_async():
        yield Enqueuer(app, pool)
