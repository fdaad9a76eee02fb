"""A job that was lost with its worker too often runs alone, and yet stops nobody for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.jobs.lease import POISON_RESCUES, LeasedJob
from duly.jobs.outcome import DONE
from duly.ledger.lease import Lease
from duly.worker import quarantine, settings
from duly.worker.execution import Execution
from duly.worker.quarantine import DRAIN_SECONDS, SUSPECT_SECONDS, Quarantine, has_isolated_job
from duly.worker.settings import WorkerPauses
from duly.worker.slots import Slots
from tests.worker.clocks import NOTHING, Seconds
from tests.worker.lingering import Lingering, came_back
from tests.worker.subjects import Case, cases, seen, working

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.subjects import DatabaseOf

AWAITED = cases(kinds=["sqlite", "postgres"], colours=["async"], ways=["leased"])


def leased(queue: str, rescues: int = 0) -> LeasedJob:
    """A lease on a job that came back so often."""
    return LeasedJob(Lease(queue, b"", 1), "", "nothing", queue, None, None, 0, rescues, 1, 0)


def run_on(subject: Slots, queue: str, rescues: int = 0) -> Execution:
    """A job that runs, and has begun."""
    run = Execution(leased(queue, rescues), NOTHING, None, subject._host)
    subject.occupy(run)
    run.handler_started_at = run.leased_at
    return run


def two_queues(seconds: Seconds) -> Slots:
    return Slots({"a": 2, "b": 2}, seconds.host)


def test_a_worker_without_work_takes_one_that_must_run_alone_or_else_anything(
    seconds: Seconds,
) -> None:
    assert [
        (want.alone, want.fresh > 0, want.turns.lone) for want in two_queues(seconds).wants()
    ] == [(True, True, True)] * 2


@pytest.mark.parametrize("rescues", range(POISON_RESCUES))
def test_nobody_makes_way_for_a_job_that_came_back_less_often(
    seconds: Seconds, rescues: int
) -> None:
    way = Quarantine(seconds.host)
    assert not way.observe_due(rescues)
    assert (way.is_due, way.is_draining) == (False, False)


def test_nothing_begins_while_way_is_made_for_a_job_that_must_run_alone(seconds: Seconds) -> None:
    subject = two_queues(seconds)
    run_on(subject, "a")
    subject.put(Execution(leased("b"), NOTHING, None, seconds.host))
    assert subject.quarantine.observe_due(POISON_RESCUES)
    assert not subject.quarantine.observe_due(POISON_RESCUES), (
        "way is made once, and not anew with each look"
    )
    seconds.now += DRAIN_SECONDS - 0.01
    assert subject.wants() == []
    assert list(subject.pop_startable()) == []


def test_a_worker_that_does_not_become_free_takes_it_all_the_same(seconds: Seconds) -> None:
    subject = two_queues(seconds)
    run_on(subject, "a")
    subject.quarantine.observe_due(POISON_RESCUES)
    seconds.now += DRAIN_SECONDS - 1
    subject.quarantine.observe_due(POISON_RESCUES)
    seconds.now += 1.01
    wants = subject.wants()
    assert [(want.alone, want.fresh, bool(want.turns)) for want in wants] == [(True, 0, False)] * 2
    assert list(subject.pop_startable()) == []
    subject.record_batch(wants, [], staged=True)  # somebody else was quicker
    assert [(want.alone, want.fresh > 0) for want in subject.wants()] == [(False, True)] * 2


def test_way_is_no_longer_made_when_another_worker_has_the_job(seconds: Seconds) -> None:
    subject = two_queues(seconds)
    run_on(subject, "a")
    subject.quarantine.observe_due(POISON_RESCUES)
    assert subject.wants() == []
    subject.quarantine.observe_due(0)
    assert {want.queue for want in subject.wants()} == {"a", "b"}


def test_nothing_begins_in_any_queue_beside_a_job_that_must_run_alone_until_it_has_lasted(
    seconds: Seconds,
) -> None:
    subject = two_queues(seconds)
    grave = run_on(subject, "a", POISON_RESCUES)
    waits = Execution(leased("b"), NOTHING, None, seconds.host)
    subject.put(waits)
    seconds.now += SUSPECT_SECONDS - 0.01
    assert subject.wants() == []
    assert list(subject.pop_startable()) == []
    seconds.now += 0.02
    assert [want.queue for want in subject.wants() if want.fresh] == ["a", "b"]
    assert list(subject.pop_startable()) == [waits]
    assert not has_isolated_job([grave])


def test_one_that_has_not_begun_or_has_ended_is_told_apart(seconds: Seconds) -> None:
    waits = Execution(leased("a", POISON_RESCUES), NOTHING, None, seconds.host)
    seconds.now += 2 * SUSPECT_SECONDS
    assert has_isolated_job([waits]), "it has run for no time at all"
    waits.ended = DONE
    assert not has_isolated_job([waits]), "only its commit is waited for"


@pytest.mark.parametrize(
    ("beside", "rescued", "lone"), [(0, True, True), (1, True, False), (2, False, False)]
)
def test_jobs_that_came_back_keep_apart_from_each_other_across_queues(
    seconds: Seconds, beside: int, rescued: bool, lone: bool
) -> None:
    subject = two_queues(seconds)
    run_on(subject, "a", beside)
    [other] = [want for want in subject.wants() if want.queue == "b"]
    assert (other.turns.rescued > 0, other.turns.lone, other.alone) == (rescued, lone, False)
    assert other.fresh > 0


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_job_that_must_run_alone_stops_no_queue_for_long(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (quarantine, "DRAIN_SECONDS", 0.2),
        (quarantine, "SUSPECT_SECONDS", 0.3),
        (settings, "PAUSES", WorkerPauses(rescued=0.05)),
    ):
        monkeypatch.setattr(module, name, value)
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        async with working(subject, queues={"a": 2, "b": 2}):
            await subject.enqueue(payload="long", queue="b")
            await works.run("long")
            grave = await came_back(subject, POISON_RESCUES, "grave", queue="a")
            await works.run("long", "grave")
            await subject.enqueue(payload="fresh", queue="b")
            await works.run("long", "grave", "fresh")
            works.let_go("long", "grave", "fresh")
            await seen(lambda: subject.records.states() == [])
        assert subject.records.history(grave) == [("work", "done", 1)]


def looks_in_a_row(
    watched: quarantine.Quarantine, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], int]:
    """How often in a row the worker has by now found a due job that must run alone."""
    found = 0
    observe_due = watched.observe_due

    def observe(rescued: int) -> bool:
        nonlocal found
        found = found + 1 if rescued >= POISON_RESCUES else 0
        return observe_due(rescued)

    monkeypatch.setattr(watched, "observe_due", observe)
    return lambda: found


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_job_that_must_run_alone_does_where_what_runs_ends_in_time(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "PAUSES", WorkerPauses(rescued=0.05))
    monkeypatch.setattr(quarantine, "DRAIN_SECONDS", 60.0)  # in time, however busy the machine is
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        async with working(subject, queues={"a": 2, "b": 2}) as started:
            await subject.enqueue(payload="short", queue="b")
            await works.run("short")
            looks = looks_in_a_row(started._executor.slots.quarantine, monkeypatch)
            await came_back(subject, POISON_RESCUES, "grave", queue="a")
            # One look for each queue may have been under way before, and be heard of later.
            await seen(lambda: looks() > 2)
            await subject.enqueue(payload="fresh", queue="b")
            works.let_go("short", "fresh")
            await works.run("grave")
            works.let_go("grave")
            await seen(lambda: subject.records.states() == [])
        assert works.beside == {"short": [], "grave": [], "fresh": []}
        assert works.ended == ["short through", "grave through", "fresh through"]


@pytest.mark.parametrize("case", AWAITED[:1], ids=lambda case: case.name)
async def test_a_worker_that_has_just_become_free_still_knows_what_it_was_freed_for(
    case: Case, place: DatabaseOf
) -> None:
    """Its next fetch is for that job; a look meanwhile must not let fresh ones go first."""
    async with case.open(place) as subject:
        worker = subject.app.process.worker(settings.WorkerSettings())
        worker._executor.slots.quarantine.observe_due(POISON_RESCUES)
        await worker._fetcher.reserve_for_rescued()
        assert [want.alone for want in worker._executor.slots.wants()] == [True]
        assert worker._executor.slots.quarantine.is_due
