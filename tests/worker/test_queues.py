"""Which job runs when: priority, queue, delay, time, and handlers that nobody knows yet."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.worker import slots
from tests.support.processes.leading import PATIENCE
from tests.worker.subjects import Case, cases, seen, working

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.worker.subjects import DatabaseOf, Hand

HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)
# A temporary store has no second process that could be deployed to.
SHARED = [case for case in cases() if case.kind != "memory"]


class Order:
    """A handler that remembers in which order it was called."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []

    async def __call__(self, hand: Hand) -> None:
        self.payloads.append(hand.job.payload)


async def test_the_most_urgent_runs_first_then_the_oldest(case: Case, place: DatabaseOf) -> None:
    order = Order()
    async with case.open(place) as subject:
        subject.job(order)
        for payload, priority in (("c", 0), ("d", 0), ("e", 32767), ("b", -1), ("a", -32768)):
            await subject.enqueue(payload=payload, priority=priority)
        assert (await subject.work(concurrency=1)).done == 5
        assert order.payloads == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "case",
    [Case("sqlite", "async", "leased"), Case("postgres", "async", "tx")],
    ids=lambda case: case.name,
)
async def test_an_urgent_job_that_comes_late_passes_those_that_wait(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "FROM_THE_START", 0.05)
    monkeypatch.setattr(slots.QueueSlots, "prefetch_limit", property(lambda _: 2))
    ran: list[str] = []

    async def works(hand: Hand) -> None:
        if not ran:
            await hand.enqueue("work", "urgent", priority=-1)
        ran.append(hand.job.payload)
        await hand.pause(0.01)

    async with case.open(place) as subject:
        subject.job(works)
        subject.app.enqueue_many("work", ["waits"] * 30)
        assert (await subject.work(concurrency=1)).done == 31
        assert ran.index("urgent") < 30


async def test_a_worker_takes_from_its_own_queues_alone(case: Case, place: DatabaseOf) -> None:
    order = Order()
    async with case.open(place) as subject:
        subject.job(order, queue="mail")
        await subject.enqueue(payload="mail")
        await subject.enqueue(payload="default", queue="default")
        await subject.enqueue(payload="reports", queue="reports")
        assert (await subject.work(queues=["default"])).done == 1
        assert order.payloads == ["default"]
        assert (await subject.work(queues={"other": 2})).done == 0
        assert (await subject.work()).done == 1  # those that its handlers name
        assert order.payloads == ["default", "mail"]
        assert (await subject.work(queues={"reports": 1, "other": 2})).done == 1
        assert order.payloads == ["default", "mail", "reports"]


async def test_so_many_jobs_of_a_queue_run_at_once_as_it_has_places(
    woven: Case, place: DatabaseOf
) -> None:
    places = 1 if woven.locks else 3
    running: list[int] = [0]
    most: list[int] = [0]

    async def work(hand: Hand) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        deadline = time.monotonic() + PATIENCE
        while most[0] < places and time.monotonic() < deadline:
            await hand.pause(0.01)  # until the others have begun, however slow the machine is
        await hand.pause(0.02)
        running[0] -= 1

    async with woven.open(place) as subject:
        subject.job(work, timeout=2 * timedelta(seconds=PATIENCE))
        for _ in range(9):
            await subject.enqueue()
        assert (await subject.work(queues={"default": 3})).done == 9
        assert most[0] == places


@pytest.mark.parametrize("how", ["delay", "at"])
async def test_a_job_runs_when_its_time_has_come_and_not_before(
    case: Case, place: DatabaseOf, clock: HandClock, how: str
) -> None:
    order = Order()
    async with case.open(place, clock) as subject:
        subject.job(order)
        when: Any = HOUR if how == "delay" else clock() + HOUR
        await subject.enqueue(payload="later", **{how: when})
        await subject.enqueue(payload="now", **{how: when - HOUR})
        assert (await subject.work()).done == 1
        clock.advance(HOUR - INSTANT)
        assert (await subject.work()).done == 0
        clock.advance(INSTANT)
        assert (await subject.work()).done == 1
        assert order.payloads == ["now", "later"]


async def test_a_worker_that_waits_begins_a_job_when_its_time_comes(
    woven: Case, place: DatabaseOf
) -> None:
    order = Order()
    async with woven.open(place) as subject:
        subject.job(order)
        async with working(subject):
            begun, delay = time.monotonic(), timedelta(milliseconds=200)
            await subject.enqueue(payload="soon", delay=delay)
            await seen(lambda: order.payloads == ["soon"])
            assert time.monotonic() - begun >= delay.total_seconds()


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case.name)
async def test_a_job_that_nobody_knows_is_parked_and_runs_after_the_deploy(
    case: Case, place: DatabaseOf, caplog: pytest.LogCaptureFixture
) -> None:
    order = Order()
    async with case.open(place) as newer, case.open(place) as older:
        newer.job(order, name="fresh")
        older.job(order, name="known")
        id, known = await newer.enqueue("fresh", "fresh"), await older.enqueue("known", "known")
        worked = await older.work()
        assert (worked.done, worked.retried, worked.dead) == (1, 1, 0)
        assert "there is no handler fresh in this process" in caplog.text
        assert newer.records.counted(id) == ("ready", 0, 0)  # it cost the job nothing
        assert (await older.work()).retried == 0  # and is left alone for a while

        assert (await newer.work()).done == 1
        assert order.payloads == ["known", "fresh"]
        assert newer.records.history(id) == [("fresh", "done", 1)]
        assert newer.records.history(known) == [("known", "done", 1)]


@pytest.mark.parametrize("case", SHARED[:2], ids=lambda case: case.name)
async def test_a_parked_job_is_looked_at_again_although_nothing_was_deployed(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    order = Order()
    async with case.open(place, clock) as newer, case.open(place, clock) as older:
        newer.job(order, name="fresh")
        await newer.enqueue("fresh")
        assert (await older.work()).retried == 1
        assert (await older.work()).retried == 0
        clock.advance(timedelta(minutes=1))
        assert (await older.work()).retried == 1
        assert (await newer.work()).done == 1
