"""What a worker takes, keeps and asks is bounded, whatever is in the queues beside its own work."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.service.completer import Completer
from duly.worker import executor, fetcher
from duly.worker.fetcher import Fetcher
from duly.worker.settings import PAUSES, WorkerSettings
from duly.worker.slots import Slots
from tests.worker.lingering import Lingering, came_back
from tests.worker.subjects import Case, cases, seen, working

if TYPE_CHECKING:
    from duly.jobs.lease import QueueDemand
    from tests.worker.subjects import DatabaseOf, Subject

AWAITED = cases(kinds=["sqlite", "postgres"], colours=["async"], ways=["leased"])
SLOTS = 3


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_jobs_that_nobody_knows_take_up_slots_until_they_are_parked(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, rounds = threading.Event(), 0
    write, wants = Completer._try_write, Slots.wants

    async def late(settler: Completer[Any, Any], *positional: Any, **options: Any) -> Any:
        return await write(settler, *positional, **options) if gate.is_set() else None

    def counted(desk: Slots) -> list[QueueDemand]:
        nonlocal rounds
        rounds += 1
        return wants(desk)

    monkeypatch.setattr(Completer, "_try_write", late)
    monkeypatch.setattr(Slots, "wants", counted)
    monkeypatch.setattr(fetcher, "STAGE", 0.01)
    async with case.open(place) as subject:
        subject.job(Lingering())
        for _ in range(5 * SLOTS):
            await subject.enqueue()
        subject.records.run("UPDATE duly_jobs SET name = 'of the next deploy'")
        async with working(subject, queues={"default": SLOTS}):
            await seen(lambda: "leased" in subject.records.states())
            rounds = 0
            await seen(lambda: rounds > 5)
            leased = subject.records.states().count("leased")
            gate.set()
            await seen(lambda: parked(subject) == 5 * SLOTS)
        assert leased == SLOTS


def parked(subject: Subject) -> int:
    """How many jobs wait for somebody who knows them."""
    return len(subject.records.rows("SELECT id FROM duly_jobs WHERE parked"))


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long a worker that found nothing meant to wait, each time."""
    asked: list[float] = []
    nap = Fetcher.sleep_until_woken

    async def counted(taker: Fetcher, seconds: float) -> None:
        asked.append(seconds)
        await nap(taker, seconds)

    monkeypatch.setattr(Fetcher, "sleep_until_woken", counted)
    return asked


async def growing(naps: list[float]) -> None:
    """Until the pauses are as long as they get, or there were too many of them."""
    naps.clear()
    await seen(lambda: max(naps, default=0) >= PAUSES.latest or len(naps) > 20)
    assert max(naps) >= PAUSES.latest > PAUSES.soonest


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_full_queue_with_more_to_do_is_not_asked_for_all_the_time(
    case: Case, place: DatabaseOf, naps: list[float]
) -> None:
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        for name in ("one", "two"):
            await subject.enqueue(payload=name, queue="full")
        async with working(subject, queues={"full": 1, "empty": 1}):
            await works.run("one")
            await growing(naps)
            works.let_go("one", "two")
            await seen(lambda: subject.records.states() == [])


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_job_that_must_wait_for_another_is_not_asked_for_all_the_time(
    case: Case, place: DatabaseOf, naps: list[float]
) -> None:
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        await came_back(subject, 2, "one")
        async with working(subject):
            await works.run("one")
            await came_back(subject, 2, "two")
            await growing(naps)
            assert works.running == ["one"]
            works.let_go("one", "two")
            await seen(lambda: subject.records.states() == [])


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_slot_is_kept_free_for_a_rescued_job_in_its_own_queue_alone(
    case: Case, place: DatabaseOf
) -> None:
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        worker = subject.app.process.worker(WorkerSettings({"a": 1, "b": 1}, grace=timedelta(0)))
        running = asyncio.ensure_future(worker.run())
        for queue in ("a", "b"):
            await subject.enqueue(payload=queue, queue=queue)
        await works.run("a", "b")
        await came_back(subject, 1, "again", queue="a")
        await worker._fetcher.reserve_for_rescued()
        kept = {name: queue.reserved for name, queue in worker._executor.slots.queues.items()}
        works.let_go("a", "b", "again")
        await seen(lambda: subject.records.states() == [])
        worker.stop()
        await running
        assert kept == {"a": True, "b": False}


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_worker_that_ends_waits_for_a_busy_database_as_long_as_its_grace(
    case: Case,
    place: DatabaseOf,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(executor, "ENDING", 0.1)
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        id = await subject.enqueue(payload="one")
        async with working(subject, grace=timedelta(seconds=20)) as worker:
            await works.run("one")
            with closing(subject.records.place.connect()) as other:
                other.execute("BEGIN IMMEDIATE" if case.kind == "sqlite" else "BEGIN")
                other.execute("UPDATE duly_jobs SET priority = 1")
                worker.stop()
                works.let_go("one")
                await works.run()
                await asyncio.sleep(5 * executor.ENDING)
                other.execute("ROLLBACK")
        assert "left to be rescued" not in caplog.text
        assert subject.records.history(id) == [("work", "done", 1)]
