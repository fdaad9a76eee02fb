"""An application with one job in a world: its rows, its child jobs and what became of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import duly
from duly.core.onestep import finish
from tests.stores.orm.worlds import SECRET, WRITE, Hand, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.stores.join.places import Place

    Body = Callable[[Any, Hand], Awaitable[None]]


class Shop:
    """An application in a world, with one job under a name that no other test has."""

    def __init__(self, world: World, app: duly.Duly, place: Place, name: str) -> None:
        self.world = world
        self.app = app
        self.place = place
        self.name = name
        app.job(name=f"{name}-child", queue=f"{name}-later")(nothing)

    def job(self, body: Body, **options: Any) -> None:
        """Register the job: a coroutine over the job and its ``tx``, in the colour of the ORM."""
        options |= {"name": self.name, "queue": self.name}
        self.app.job(**options)(self._handler(body))

    def bulk_job(self, body: Callable[[list[Any], Hand], Awaitable[None]], **options: Any) -> None:
        """Register a bulk handler likewise: a coroutine over its jobs and their ``tx``."""

        def blocking(jobs: list[Any], tx: Any) -> None:
            finish(body(jobs, Hand(self.world, self.name, tx)))  # type: ignore[arg-type]

        async def awaited(jobs: list[Any], tx: Any) -> None:
            await body(jobs, Hand(self.world, self.name, tx))

        options |= {"name": self.name, "queue": self.name}
        self.app.job(**options)(blocking if self.world.colour == "sync" else awaited)

    def on(self, body: Body, **options: Any) -> None:
        """Handle the events of a source likewise."""
        self.app.source(self.name, provider="standard-webhooks", secret=SECRET)
        options |= {"name": self.name, "queue": self.name}
        self.app.on(self.name, **options)(self._handler(body))

    def _handler(self, body: Body) -> Any:
        def blocking(job: Any, tx: Any) -> None:
            finish(body(job, Hand(self.world, self.name, tx)))  # type: ignore[arg-type]

        async def awaited(job: Any, tx: Any) -> None:
            await body(job, Hand(self.world, self.name, tx))

        return awaited if self.world.colour == "async" else blocking

    async def enqueue(self, payload: Any = None) -> None:
        await self.app.aio.enqueue(self.name, payload)

    async def work(self) -> duly.types.Worked:
        return await self.app.aio.work(queues=[self.name])

    async def worked_on(self, payload: Any = None) -> duly.types.Worked:
        await self.enqueue(payload)
        return await self.work()

    def count(self, table: str, column: str, name: str = "") -> int:
        """How many rows an outsider sees."""
        [(count,)] = self.place.rows(
            f"SELECT count(*) FROM duly_{table} WHERE {column} = '{self.name}{name}'"
        )
        return int(count)

    def left(self) -> tuple[int, int, int]:
        """The user's rows, child jobs, and rows of the history that an outsider sees."""
        notes = len(self.place.notes(self.name))
        return notes, self.count("jobs", "name", "-child"), self.count("history", "name")

    def error(self) -> str:
        [(state, error)] = self.place.rows(
            f"SELECT state, last_error FROM duly_jobs WHERE name = '{self.name}'"
        )
        assert state == "dead"
        return bytes(error).decode()


@asynccontextmanager
async def a_shop(world: World, place: Place, name: str, **options: Any) -> AsyncIterator[Shop]:
    """An application that opens transactions in a world, closed at the end."""
    async with world.begin(place.url, **options) as begin:
        app = duly.Duly(begin=begin)
        try:
            yield Shop(world, app, place, name)
        finally:
            await app.aclose()
            app.close()


def nothing() -> None:
    """A job that asks for nothing."""


async def do_all(shop: Shop, hand: Hand) -> None:
    """Everything that a handler can do in its transaction: a row twice, and a job twice."""
    await hand.write(f"{shop.name}-session")
    await hand.execute(WRITE, scope=shop.name, note=f"{shop.name}-tx")
    await hand.waited(hand.tx.enqueue(f"{shop.name}-child", key="receipt-1"))
    await hand.waited(hand.tx.enqueue_many(f"{shop.name}-child", [1]))
