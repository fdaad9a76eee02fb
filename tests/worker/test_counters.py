"""Two counters: attempts are runs that failed, rescues are leases that were lost; each has a limit.

A job that never began costs neither.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.core.defaults import WAIT
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.core.retry import RESCUE_LIMIT
from duly.worker import rescue
from duly.worker.slots import QueueSlots
from tests.support.processes.leading import PATIENCE
from tests.worker.moving import take
from tests.worker.subjects import seen, working

if TYPE_CHECKING:
    from duly.core.retry import Backoff
    from duly.core.session import Session
    from duly.jobs.workers import WorkerIdentity
    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf, Hand, Subject

# Longer than the longest wait after a rescue.
BACK = timedelta(minutes=5)


class Trouble(Exception):
    """Something that goes wrong in a handler."""


async def lose_worker(subject: Subject) -> None:
    """Every job that can be taken is, by a worker that is never seen again."""
    gone = new_id()

    async def take_all(session: Session) -> list[Any]:
        fresh = await take(session, gone, queue="default")
        return [*fresh, *await take(session, gone, queue="default", rescued=True)]

    taking = subject.app.store.sync_runner.run(take_all, wait=WAIT)
    assert await asyncio.to_thread(finish, taking)


@pytest.mark.promise("I6")
async def test_a_job_whose_worker_was_lost_is_tried_again_later_at_no_attempts_cost(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    ran: list[tuple[int, int]] = []

    async def works(hand: Hand) -> None:
        ran.append((hand.job.attempt, hand.job.rescues))
        await hand.write("done")

    async with case.open(place, clock) as subject:
        subject.job(works)  # a single attempt
        id = await subject.enqueue()
        await lose_worker(subject)
        worked = await subject.work()
        assert (worked.rescued, worked.done) == (1, 0)
        row = subject.records.present(id)
        assert row[:3] == ("ready", 0, 1)
        assert (row.token, row.worker) == (None, None)
        assert row.error is not None
        assert "lease was lost" in row.error["message"]
        clock.advance(BACK)
        assert (await subject.work()).done == 1
        assert ran == [(1, 1)]
        assert subject.records.history(id) == [("work", "done", 1)]
        assert subject.records.notes() == ["done"]


@pytest.mark.promise("I9")
async def test_a_job_that_loses_its_worker_every_time_is_dead_and_its_neighbour_is_not(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async def works(hand: Hand) -> None:
        await hand.write(hand.job.payload)

    async with woven.open(place, clock) as subject:
        subject.job(works, attempts=3)
        id = await subject.enqueue(payload="kills")
        for _ in range(RESCUE_LIMIT):
            await lose_worker(subject)
            assert (await subject.work(queues=["elsewhere"])).rescued == 1
            clock.advance(BACK)
        other = await subject.enqueue(payload="lives")
        assert (await subject.work()).done == 1
        assert subject.records.counted(id) == ("dead", 0, RESCUE_LIMIT)
        assert subject.records.history(other) == [("work", "done", 1)]
        assert subject.records.notes() == ["lives"]


async def test_a_worker_that_ends_when_idle_looks_for_lost_leases_once(
    woven: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of two looks at a time, the one that ends the worker may pass over what the other has locked.
    look = rescue.take_back
    looks: list[str] = []

    async def counted(session: Session, worker: WorkerIdentity, backoff: Backoff) -> Any:
        looks.append(worker.id)
        return await look(session, worker, backoff)

    monkeypatch.setattr(rescue, "take_back", counted)
    async with woven.open(place) as subject:
        await subject.work()
    assert len(looks) == 1


async def test_a_retry_keeps_the_count_of_rescues_and_the_other_way_round(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    ran: list[tuple[int, int]] = []

    async def fails(hand: Hand) -> None:
        ran.append((hand.job.attempt, hand.job.rescues))
        raise Trouble

    async with woven.open(place, clock) as subject:
        subject.job(fails, attempts=3)
        id = await subject.enqueue()
        await lose_worker(subject)
        await subject.work(queues=["elsewhere"])
        clock.advance(BACK)
        await lose_worker(subject)
        await subject.work(queues=["elsewhere"])
        assert subject.records.counted(id) == ("ready", 0, 2)
        clock.advance(BACK)
        worked = await subject.work()
        assert (worked.retried, worked.dead) == (2, 1)
        assert ran == [(1, 2), (2, 2), (3, 2)]
        assert subject.records.counted(id) == ("dead", 3, 2)


@pytest.mark.promise("I12")
async def test_a_worker_that_is_told_to_end_now_gives_back_what_ran_and_what_never_began(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueueSlots, "prefetch_limit", property(lambda _: 3))
    begun, gate = threading.Event(), threading.Event()
    ran: list[str] = []

    async def waits(hand: Hand) -> None:
        ran.append(hand.job.id)
        if hand.tx is not None:
            await hand.write("half")
        begun.set()
        while not gate.is_set():
            await hand.pause(0.01)

    async with case.open(place) as subject:
        subject.job(waits)
        ids = [await subject.enqueue() for _ in range(3)]
        try:
            async with working(subject, queues={"default": 1}) as worker:
                assert await asyncio.to_thread(begun.wait, PATIENCE)
                await seen(lambda: subject.records.states() == ["leased"] * 3)
                worker.stop_now()
        finally:
            gate.set()
        assert len(ran) == 1
        counted = {id: subject.records.counted(id) for id in ids}
        assert counted.pop(ran[0]) == ("ready", 0, 1)  # it may have been half-way
        assert set(counted.values()) == {("ready", 0, 0)}  # these never began
        assert subject.records.notes() == []
        assert subject.records.rows("SELECT * FROM duly_workers") == []


async def test_a_worker_that_is_told_to_end_lets_a_job_finish(
    case: Case, place: DatabaseOf
) -> None:
    begun, gate = threading.Event(), threading.Event()

    async def waits(hand: Hand) -> None:
        begun.set()
        while not gate.is_set():
            await hand.pause(0.01)
        await hand.write("whole")

    async with case.open(place) as subject:
        subject.job(waits)
        id = await subject.enqueue()
        async with working(subject, grace=timedelta(seconds=PATIENCE)) as worker:
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            worker.stop()
            gate.set()
        assert subject.records.history(id) == [("work", "done", 1)]
        assert subject.records.notes() == ["whole"]
