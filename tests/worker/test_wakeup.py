"""A worker with nothing to do hears of new jobs at once where it can, and polls everywhere."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
from duly.core.host import HOST
from duly.jobs.lease import POISON_RESCUES
from duly.worker import fetcher
from duly.worker.settings import PAUSES
from duly.worker.slots import Slots
from tests.support.processes.leading import PATIENCE
from tests.worker.subjects import BOUNCED, Case, cases, seen, working

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.worker.subjects import DatabaseOf, Hand, Subject

HEARING = [Case("postgres", "sync", "tx"), Case("postgres", "async", "leased")]
# Those who hear nothing of other processes. A temporary store has none.
POLLING = [*cases(kinds=["sqlite"], ways=["leased"]), *BOUNCED]


class Started:
    """When the handler began."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.at = 0.0

    async def __call__(self, hand: Hand) -> None:
        self.at = time.monotonic()
        self.event.set()


@asynccontextmanager
async def waiting(case: Case, place: DatabaseOf) -> AsyncIterator[tuple[Subject, Started]]:
    """Another application, whose worker waits for jobs and has been told of none."""
    started = Started()
    async with case.open(place) as subject, case.open(place) as other:
        subject.job(started)
        other.job(started)
        async with working(other):
            yield subject, started


def says_that_it_waits(subject: Subject) -> bool:
    """Whether the worker has asked to be woken."""
    return subject.records.rows("SELECT idle FROM duly_workers") == [(True,)]


@pytest.mark.parametrize("way", ["enqueue", "enqueue_many", "keyed", "joined"])
@pytest.mark.parametrize("case", HEARING, ids=lambda case: case.name)
async def test_a_worker_is_woken_by_whoever_enqueues_and_does_not_wait_for_its_next_look(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(fetcher, "LISTENING", 2 * PATIENCE)
    async with waiting(case, place) as (subject, started):
        await seen(lambda: says_that_it_waits(subject))
        asked = time.monotonic()
        await asyncio.to_thread(enqueued, subject.app, place.url, way)
        assert await asyncio.to_thread(started.event.wait, PATIENCE)
        assert started.at - asked < PATIENCE / 3  # most of it is this machine's


def enqueued(app: duly.Duly, url: str, way: str) -> None:
    """Enqueue by a connection that is not the worker's."""
    if way == "enqueue":
        app.enqueue("work")
    elif way == "enqueue_many":
        app.enqueue_many("work", [1, 2, 3])
    elif way == "keyed":
        app.enqueue("work", key="once")
    else:
        with psycopg.connect(url) as connection:
            app.enqueue("work", tx=connection)


async def told_at_each_round(rung: list[bool], *, urgent: bool = False) -> list[bool]:
    """Whether each round looks for jobs that came due, after a notification or none."""
    store = SimpleNamespace(async_runner=None, listen=None)
    desk = Slots({"default": 1})
    desk.quarantine.observe_due(POISON_RESCUES if urgent else 0)
    registries = SimpleNamespace(jobs=SimpleNamespace(all=list))
    parts = SimpleNamespace(store=store, many_writers=True, registries=registries, host=HOST)
    taker = fetcher.Fetcher(parts, SimpleNamespace(slots=desk), None, PAUSES)  # type: ignore[arg-type]
    ears: list[Callable[[], None]] = []

    async def listen(heard: Callable[[], None]) -> bool:
        ears.append(heard)
        return True

    store.listen = listen
    await taker.listen()
    looks: list[bool] = []
    for ring in rung:
        if ring:
            ears[0]()
        looks.append(taker._should_stage(desk.wants()))
    return looks


async def test_the_round_after_a_notification_is_for_what_it_told_of_and_the_next_one_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetcher, "STAGE", -1.0)  # it is always time to look
    assert await told_at_each_round([False, True, False]) == [True, False, True]
    assert await told_at_each_round([True] * 5) == [False, True, False, True, False]
    assert await told_at_each_round([True] * 3, urgent=True) == [True] * 3


@pytest.mark.parametrize("case", HEARING, ids=lambda case: case.name)
async def test_a_worker_that_is_woken_by_nobody_looks_for_itself(
    case: Case, place: DatabaseOf
) -> None:
    async with waiting(case, place) as (subject, started):
        await seen(lambda: says_that_it_waits(subject))
        with psycopg.connect(place.url) as connection:
            connection.execute("UPDATE duly_workers SET idle = false")  # so nobody rings
        await subject.enqueue()
        assert await asyncio.to_thread(started.event.wait, PATIENCE)


@pytest.mark.parametrize("case", POLLING, ids=lambda case: case.name)
async def test_a_worker_that_hears_nothing_finds_the_jobs_of_others_by_looking(
    case: Case, place: DatabaseOf
) -> None:
    async with waiting(case, place) as (subject, started):
        await seen(lambda: bool(subject.records.rows("SELECT id FROM duly_workers")))
        await subject.enqueue()
        assert await asyncio.to_thread(started.event.wait, PATIENCE)
        assert subject.records.rows("SELECT id FROM duly_workers WHERE idle") == []


async def test_everything_works_by_way_of_pgbouncer(bounced: Case, place: DatabaseOf) -> None:
    async def works(hand: Hand) -> Any:
        await hand.write(f"{hand.job.payload}{hand.job.attempt}")
        if hand.job.payload == "parent":
            await hand.enqueue("work", "child")
        if hand.job.payload == "fails" and hand.job.attempt == 1:
            raise ValueError
        return duly.Dead("no") if hand.job.payload == "dies" else None

    async with bounced.open(place) as subject:
        subject.job(works, attempts=2)
        for payload in ("done", "parent", "fails", "dies", *"abcdefgh"):
            await subject.enqueue(payload=payload)
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead, worked.lost) == (12, 1, 1, 0)
        kept = [] if bounced.way == "tx" else ["dies1", "fails1"]
        told = ["child1", "done1", "fails2", "parent1", *(f"{letter}1" for letter in "abcdefgh")]
        assert sorted(subject.records.notes()) == sorted([*told, *kept])
        assert subject.records.states() == ["dead"]
