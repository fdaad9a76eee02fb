"""Handlers in the user's ORM: its session, child jobs and the end of the lease are one commit."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

import duly
from duly._kernel.onestep import finish
from tests.begin.worlds import WORLDS, World
from tests.joining.django_handles import spelled
from tests.joining.sqlite_handles import path_of
from tests.working.records import WRITE, Records
from tests.working.test_fences import stop_before_begin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("world", WORLDS, ids=str)]
AT_ONCE = duly.Backoff(first=timedelta(0))
ENDINGS = ("commit", "rollback", "close")


class Trouble(Exception):
    """Something that goes wrong in a handler."""


class Desk:
    """An application on one ORM, with handlers in its colour."""

    def __init__(self, world: World, app: duly.Duly, records: Records) -> None:
        self.world, self.app, self.records = world, app, records

    def job(self, body: Callable[[Any, Any], Awaitable[None]], name: str = "work") -> None:
        """Register a coroutine over job and tx."""

        def blocking(job: Any, tx: Any) -> None:
            finish(body(job, tx))  # type: ignore[arg-type]

        async def awaited(job: Any, tx: Any) -> None:
            await body(job, tx)

        handler = blocking if self.world.colour == "sync" else awaited
        self.app.job(name=name, attempts=2, backoff=AT_ONCE)(handler)

    async def write(self, tx: Any, job: str, note: str) -> None:
        """Write a row through the ORM's own session."""
        values = {"job": job, "note": note}
        if self.world.is_django:
            with tx.session.cursor() as cursor:
                cursor.execute(*spelled(WRITE, values))
        else:
            await self.waited(tx.session.execute(text(WRITE), values))

    async def waited(self, result: Any) -> Any:
        """The same call blocks in one colour and is awaited in the other."""
        return await result if self.world.colour == "async" else result

    async def work(self) -> Any:
        """Work until nothing is left to do now."""
        if self.world.colour == "async":
            return await self.app.aio.work()
        return await asyncio.to_thread(self.app.work)


@pytest.fixture
def url(world: World, request: pytest.FixtureRequest) -> str:
    """A database of the world's store, without a job in it."""
    if world.store == "sqlite":
        found: str = request.getfixturevalue("sqlite_url")
        Path(path_of(found)).write_bytes(request.getfixturevalue("working_sqlite"))
        return found
    shared: str = request.getfixturevalue("working_postgres")
    with Records(shared).looking() as records:
        records.clear()
    return shared


@asynccontextmanager
async def opened(world: World, url: str) -> AsyncIterator[Desk]:
    async with world.begin(url) as begin:
        app = duly.Duly(begin=begin)
        try:
            with Records(url).looking() as records:
                yield Desk(world, app, records)
        finally:
            await app.aclose()
            await asyncio.to_thread(app.close)


async def test_rows_child_jobs_and_the_end_are_committed_together_or_not_at_all(
    world: World, url: str
) -> None:
    async with opened(world, url) as desk:

        async def parent(job: Any, tx: Any) -> None:
            await desk.write(tx, job.id, f"parent {job.attempt}")
            await desk.waited(tx.enqueue("child", job.attempt))
            if job.attempt == 1:
                raise Trouble

        async def child(job: Any, tx: Any) -> None:
            await desk.write(tx, job.id, f"child {job.payload}")

        desk.job(parent)
        desk.job(child, name="child")
        id = desk.app.enqueue("work").id
        worked = await desk.work()
        assert (worked.done, worked.again, worked.dead) == (2, 1, 0)
        assert desk.records.notes() == ["child 2", "parent 2"]
        assert desk.records.history(id) == [("work", "done", 2)]


async def test_ending_the_session_in_a_handler_is_refused_with_the_remedy(
    world: World, url: str
) -> None:
    # sqlite3's own connection, which Django's stands before, takes no attributes and has no guard.
    targets = ["session"] if world.name == "django-sqlite" else ["session", "connection"]
    async with opened(world, url) as desk:

        async def ends(job: Any, tx: Any) -> None:
            await desk.write(tx, job.id, "half")
            target, ending = job.payload
            await desk.waited(getattr(getattr(tx, target), ending)())

        async def forgets(job: Any, tx: Any) -> None:
            await desk.write(tx, job.id, "half")
            if world.colour == "async":
                await desk.app.aio.enqueue("work", ["session", "commit"])
            else:
                desk.app.enqueue("work", ["session", "commit"])

        desk.job(ends)
        desk.job(forgets, name="forgets")
        payloads: list[Any] = [[target, ending] for target in targets for ending in ENDINGS]
        ids = {job.id for job in desk.app.enqueue_many("work", payloads)}
        forgetful = desk.app.enqueue("forgets").id
        assert (await desk.work()).dead == len(ids) + 1
        for id in ids:
            error = desk.records.present(id).error
            assert error is not None
            assert (error["type"], "return to commit" in error["message"]) == ("duly.Misuse", True)
        error = desk.records.present(forgetful).error
        assert error is not None
        assert "tx.enqueue" in error["message"]
        assert desk.records.notes() == []
        assert desk.records.states() == ["dead"] * (len(ids) + 1)


async def test_a_session_whose_lease_was_lost_is_rolled_back(
    world: World, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(world, url) as desk:

        async def works(job: Any, tx: Any) -> None:
            await desk.write(tx, job.id, "late")
            await desk.waited(tx.enqueue("work"))

        desk.job(works)
        stop_before_begin(monkeypatch, desk.records.steal)
        id = desk.app.enqueue("work").id
        worked = await desk.work()
        assert (worked.lost, worked.done) == (1, 0)
        assert desk.records.notes() == []
        assert desk.records.states() == ["leased"]
        assert desk.records.present(id)[:4] == ("leased", 0, 0, 2)
