"""A job that was lost with its worker too often runs alone, and yet stops nobody for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.jobs.lease import GRAVE, Leased
from duly.jobs.outcome import DONE
from duly.worker import quarantine, worker
from duly.worker.execution import Run
from duly.worker.quarantine import CLEARING, LONELY, Clearing, lonely
from duly.worker.slots import Desk
from tests.worker.clocks import NOTHING, Seconds
from tests.worker.lingering import Lingering, came_back
from tests.worker.subjects import Case, cases, seen, working

if TYPE_CHECKING:
    from tests.worker.subjects import DatabaseOf

AWAITED = cases(kinds=["sqlite", "postgres"], colours=["async"], ways=["leased"])


def leased(queue: str, rescues: int = 0) -> Leased:
    """A lease on a job that came back so often."""
    return Leased(queue, "", "nothing", queue, None, None, 0, rescues, 1, b"", 1, 0)


def run_on(subject: Desk, queue: str, rescues: int = 0) -> Run:
    """A job that runs, and has begun."""
    run = Run(leased(queue, rescues), NOTHING, None)
    subject.occupy(run)
    run.begun = run.held
    return run


def two_queues() -> Desk:
    return Desk({"a": 2, "b": 2})


@pytest.mark.usefixtures("seconds")
def test_a_worker_without_work_takes_one_that_must_run_alone_or_else_anything() -> None:
    assert [(want.alone, want.fresh > 0, want.turns.lone) for want in two_queues().wants()] == [
        (True, True, True)
    ] * 2


@pytest.mark.parametrize("rescues", range(GRAVE))
def test_nobody_makes_way_for_a_job_that_came_back_less_often(
    seconds: Seconds, rescues: int
) -> None:
    way = Clearing()
    assert not way.see(rescues)
    assert (way.wanted, way.waiting) == (False, False)


def test_nothing_begins_while_way_is_made_for_a_job_that_must_run_alone(seconds: Seconds) -> None:
    subject = two_queues()
    run_on(subject, "a")
    subject.put(Run(leased("b"), NOTHING, None))
    assert subject.clearing.see(GRAVE)
    assert not subject.clearing.see(GRAVE), "way is made once, and not anew with each look"
    seconds.now += CLEARING - 0.01
    assert subject.wants() == []
    assert list(subject.startable()) == []


def test_a_worker_that_does_not_become_free_takes_it_all_the_same(seconds: Seconds) -> None:
    subject = two_queues()
    run_on(subject, "a")
    subject.clearing.see(GRAVE)
    seconds.now += CLEARING - 1
    subject.clearing.see(GRAVE)
    seconds.now += 1.01
    wants = subject.wants()
    assert [(want.alone, want.fresh, bool(want.turns)) for want in wants] == [(True, 0, False)] * 2
    assert list(subject.startable()) == []
    subject.took(wants, [], staged=True)  # somebody else was quicker
    assert [(want.alone, want.fresh > 0) for want in subject.wants()] == [(False, True)] * 2


def test_way_is_no_longer_made_when_another_worker_has_the_job(seconds: Seconds) -> None:
    subject = two_queues()
    run_on(subject, "a")
    subject.clearing.see(GRAVE)
    assert subject.wants() == []
    subject.clearing.see(0)
    assert {want.queue for want in subject.wants()} == {"a", "b"}


def test_nothing_begins_in_any_queue_beside_a_job_that_must_run_alone_until_it_has_lasted(
    seconds: Seconds,
) -> None:
    subject = two_queues()
    grave = run_on(subject, "a", GRAVE)
    waits = Run(leased("b"), NOTHING, None)
    subject.put(waits)
    seconds.now += LONELY - 0.01
    assert subject.wants() == []
    assert list(subject.startable()) == []
    seconds.now += 0.02
    assert [want.queue for want in subject.wants() if want.fresh] == ["a", "b"]
    assert list(subject.startable()) == [waits]
    assert not lonely([grave])


def test_one_that_has_not_begun_or_has_ended_is_told_apart(seconds: Seconds) -> None:
    waits = Run(leased("a", GRAVE), NOTHING, None)
    seconds.now += 2 * LONELY
    assert lonely([waits]), "it has run for no time at all"
    waits.ended = DONE
    assert not lonely([waits]), "only its commit is waited for"


@pytest.mark.usefixtures("seconds")
@pytest.mark.parametrize(
    ("beside", "rescued", "lone"), [(0, True, True), (1, True, False), (2, False, False)]
)
def test_jobs_that_came_back_keep_apart_from_each_other_across_queues(
    beside: int, rescued: bool, lone: bool
) -> None:
    subject = two_queues()
    run_on(subject, "a", beside)
    [other] = [want for want in subject.wants() if want.queue == "b"]
    assert (other.turns.rescued > 0, other.turns.lone, other.alone) == (rescued, lone, False)
    assert other.fresh > 0


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_job_that_must_run_alone_stops_no_queue_for_long(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, seconds in (
        (quarantine, "CLEARING", 0.2),
        (quarantine, "LONELY", 0.3),
        (worker, "ROOM", 0.05),
    ):
        monkeypatch.setattr(module, name, seconds)
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        async with working(subject, queues={"a": 2, "b": 2}):
            await subject.enqueue(payload="long", queue="b")
            await works.run("long")
            grave = await came_back(subject, GRAVE, "grave", queue="a")
            await works.run("long", "grave")
            await subject.enqueue(payload="fresh", queue="b")
            await works.run("long", "grave", "fresh")
            works.let_go("long", "grave", "fresh")
            await seen(lambda: subject.records.states() == [])
        assert subject.records.history(grave) == [("work", "done", 1)]


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_job_that_must_run_alone_does_where_what_runs_ends_in_time(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ROOM", 0.05)
    monkeypatch.setattr(quarantine, "CLEARING", 60.0)  # in time, however busy the machine is
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        async with working(subject, queues={"a": 2, "b": 2}) as started:
            await subject.enqueue(payload="short", queue="b")
            await works.run("short")
            await came_back(subject, GRAVE, "grave", queue="a")
            await seen(lambda: started._crew.desk.clearing.waiting)
            await subject.enqueue(payload="fresh", queue="b")
            works.let_go("short", "fresh")
            await works.run("grave")
            works.let_go("grave")
            await seen(lambda: subject.records.states() == [])
        assert works.beside == {"short": [], "grave": [], "fresh": []}
        assert works.ended == ["short through", "grave through", "fresh through"]
