"""DBOS: a durable queue of workflows, in threads, polled once a second as it comes.

Its queue has no limit but the threads: with one, it would take so many for each poll and no more.
There is no bulk enqueue: many jobs are one transaction of the client's.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy
from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]
from psycopg_pool import ConnectionPool

from benchmarks.working.begun import BEGUN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING'))"
QUEUE = "default"
SMALL = {"connections": 4, "at_once": 4}
POOLS: list[ConnectionPool] = []


def noop(number: int) -> None:
    BEGUN.note(number)


def update(number: int) -> None:
    BEGUN.note(number)
    with POOLS[0].connection() as connection:
        connection.execute("UPDATE accounts SET visits = visits + 1 WHERE id = %s", (number,))


def launch(url: str, settings: dict[str, int]) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "sys_db_pool_size": settings["connections"],
            "max_executor_threads": settings["at_once"],
            "application_version": "1",
            "log_level": "WARNING",
        }
    )
    DBOS.workflow(name="noop")(noop)
    DBOS.workflow(name="update")(update)
    DBOS.launch()
    DBOS.register_queue(QUEUE)


async def prepare(url: str) -> None:
    await asyncio.to_thread(launch, url, SMALL)  # its verbs that block refuse to run beside a loop
    await asyncio.to_thread(DBOS.destroy)


async def work(url: str, settings: dict[str, int]) -> None:
    POOLS.append(ConnectionPool(url, min_size=1, max_size=settings["connections"], open=True))
    await asyncio.to_thread(launch, url, settings)
    await asyncio.Event().wait()


class Enqueuer:
    """A client enqueues by the name of the workflow."""

    def __init__(self, client: Any, engine: sqlalchemy.Engine) -> None:
        self._client, self._engine = client, engine

    async def one(self, kind: Kind, number: int) -> None:
        """Through the client's own pool."""
        self._client.enqueue(options(kind), number)

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """One after the other in a transaction."""
        with self._engine.begin() as connection:
            for number in numbers:
                self._client.enqueue_in_transaction(connection, options(kind), number)

    async def within(self, kind: Kind, number: int) -> None:
        """On the caller's connection."""
        with self._engine.begin() as connection:
            connection.execute(
                sqlalchemy.text("INSERT INTO orders (id) VALUES (:id)"), {"id": number}
            )
            self._client.enqueue_in_transaction(connection, options(kind), number)


def options(kind: Kind) -> dict[str, str]:
    return {"workflow_name": kind, "queue_name": QUEUE, "app_version": "1"}


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    client = DBOSClient(system_database_url=url, application_name="bench")
    yield Enqueuer(client, engine)
    client.destroy()
    engine.dispose()
