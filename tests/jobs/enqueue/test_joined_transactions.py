"""In the user's transaction, through whatever they hold it: the job stays or goes with it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.stores.join.handles import BlockingHandle
from tests.stores.join.places import WRITE, Place
from tests.stores.join.ways import ALL, Handle, Way

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.slow  # many drivers in the same way
every_way = pytest.mark.parametrize("way", ALL, ids=str)
TOLD = [way for way in ALL if way.begins == "when told"]
IDLE = [way for way in ALL if way.begins == "by itself"]
POSTGRES = [way for way in ALL if way.store == "postgres"]
FAR = datetime(2100, 1, 1, tzinfo=UTC)


def send_receipt(job: duly.Job) -> None:
    """Never run here."""


class Queue:
    """One application with one job, enqueued through the user's connection."""

    def __init__(self, app: duly.Duly, name: str, place: Place) -> None:
        self.app = app
        self.name = name
        self.place = place

    async def ask(self, user: Handle, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb of the app, in the colour of the user's connection."""
        if isinstance(user, BlockingHandle):
            blocking: Callable[..., Any] = getattr(self.app, verb)
            return await user.call(
                lambda connection: blocking(self.name, *args, tx=connection, **options)
            )
        return await getattr(self.app.aio, verb)(self.name, *args, tx=user.connection, **options)

    async def enqueue(
        self, user: Handle, payload: object = None, **options: Any
    ) -> duly.types.Enqueued:
        made: duly.types.Enqueued = await self.ask(user, "enqueue", payload, **options)
        return made

    def jobs(self) -> list[tuple[str, bytes]]:
        """What an outsider sees."""
        rows = self.place.rows(f"SELECT id, payload FROM duly_jobs WHERE name = '{self.name}'")
        return sorted((str(job), bytes(payload)) for job, payload in rows)

    def claims(self) -> list[str]:
        """The keys that an outsider sees."""
        return self.place.claims(f"job:{self.name}")


@asynccontextmanager
async def a_queue(place: Place, name: str) -> AsyncIterator[Queue]:
    """An application that joins and opens nothing of its own."""
    app = duly.Duly(place.url)
    app.job(name=name, queue=name)(send_receipt)
    yield Queue(app, name, place)
    await app.aclose()
    app.close()


async def note(user: Handle, scope: str, text: str) -> None:
    """The user's own work; notes are unique over all tests."""
    await user.execute(WRITE, {"scope": scope, "note": f"{text} {scope}"})


@every_way
async def test_jobs_are_committed_with_the_users_rows_and_a_duplicate_harms_nothing(
    way: Way, place: Place, scope: str
) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        await user.begin()
        await note(user, scope, "before")
        first = await queue.enqueue(user, {"order": 1}, key="receipt-1")
        again = await queue.enqueue(user, {"order": 2}, key="receipt-1")
        plain = await queue.enqueue(user, "plain", at=FAR, priority=-5)
        many = await queue.ask(user, "enqueue_many", [1, 2], keys=["a", "receipt-1"])
        await note(user, scope, "after")
        assert (queue.jobs(), queue.claims(), place.notes(scope)) == ([], [], [])
        assert user.in_transaction()
        await user.commit()
        await user.begin()
        later = await queue.enqueue(user, key="receipt-1")
        await note(user, scope, "later")
        await user.commit()

        assert first.first
        assert again == later == many[1] == duly.types.Enqueued(first.id, first=False)
        assert queue.jobs() == sorted(
            [(first.id, b'{"order":1}'), (plain.id, b'"plain"'), (many[0].id, b"1")]
        )
        assert queue.claims() == ["a", "receipt-1"]
        assert len(place.notes(scope)) == 3


@every_way
async def test_jobs_and_keys_are_rolled_back_with_the_users_rows(
    way: Way, place: Place, scope: str
) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        await user.begin()
        await note(user, scope, "lost")
        lost = await queue.enqueue(user, key="receipt-1")
        await queue.ask(user, "enqueue_many", [1, 2])
        await user.rollback()
        left = queue.jobs(), queue.claims(), place.notes(scope)
        await user.begin()
        fresh = await queue.enqueue(user, key="receipt-1")
        await user.commit()

        assert left == ([], [], [])
        assert fresh.first
        assert fresh.id != lost.id
        assert queue.jobs() == [(fresh.id, b"null")]


@pytest.mark.parametrize("way", IDLE, ids=str)
async def test_a_connection_that_begins_by_itself_is_begun_and_never_committed(
    way: Way, place: Place, scope: str
) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        await queue.enqueue(user, key="receipt-1")
        assert user.in_transaction()
        assert queue.jobs() == []
        await user.rollback()
        assert queue.jobs() == []


@every_way
async def test_a_savepoint_of_the_users_takes_its_job_with_it(
    way: Way, place: Place, scope: str
) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        await user.begin()
        kept = await queue.enqueue(user, "kept", key="receipt-1")
        with pytest.raises(LookupError):
            async with user.savepoint():
                await queue.enqueue(user, "gone", key="receipt-2")
                raise LookupError
        again = await queue.enqueue(user, "again", key="receipt-2")
        await user.commit()

        assert again.first
        assert queue.jobs() == sorted([(kept.id, b'"kept"'), (again.id, b'"again"')])


@pytest.mark.parametrize("way", TOLD, ids=str)
async def test_a_connection_that_would_commit_by_itself_is_refused_before_anything_is_written(
    way: Way, place: Place, scope: str
) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        for verb, given in (("enqueue", None), ("enqueue_many", [1, 2])):
            for options in ({}, {"delay": timedelta(hours=1)}):
                with pytest.raises(duly.errors.NotJoinable, match=r"BEGIN IMMEDIATE|transaction"):
                    await queue.ask(user, verb, given, **options)
        with pytest.raises(duly.errors.NotJoinable):
            await queue.enqueue(user, key="receipt-1")
        assert not user.in_transaction()
        assert (queue.jobs(), queue.claims()) == ([], [])


@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_failed_transaction_is_refused_until_it_is_rolled_back(
    way: Way, place: Place, scope: str
) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        await user.begin()
        with pytest.raises(Exception, match=r"(?i)division by zero"):
            await user.execute("SELECT 1 / 0")
        with pytest.raises(duly.errors.NotJoinable, match="failed"):
            await queue.enqueue(user, key="receipt-1")
        await user.rollback()
        await user.begin()
        assert (await queue.enqueue(user, key="receipt-1")).first
        await user.commit()
        assert queue.claims() == ["receipt-1"]


@every_way
async def test_the_wrong_colour_names_its_twin(way: Way, place: Place, scope: str) -> None:
    async with a_queue(place, scope) as queue, way.open(place.url) as user:
        app = queue.app
        for verb in ("enqueue", "enqueue_many"):
            if way.colour == "async":
                with pytest.raises(
                    duly.errors.SyncAsyncMismatch, match=rf"await app\.aio\.{verb}\b"
                ):
                    getattr(app, verb)(scope, [], tx=user.connection)
            else:
                with pytest.raises(duly.errors.SyncAsyncMismatch, match=rf"use app\.{verb}\b"):
                    await getattr(app.aio, verb)(scope, [], tx=user.connection)
        assert queue.jobs() == []
