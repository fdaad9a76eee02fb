"""Those that came back once and those that did twice take turns: neither kind waits for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from duly.core.host import Host
from duly.jobs.lease import NO_RESCUE_QUOTA, LeasedJob
from duly.jobs.outcome import DONE
from duly.ledger.lease import Lease
from duly.worker import fetcher, quarantine, settings
from duly.worker.execution import Execution
from duly.worker.quarantine import SUSPECT_SECONDS
from duly.worker.settings import WorkerPauses
from duly.worker.slots import Slots
from tests.support.processes.leading import PATIENCE
from tests.worker.clocks import NOTHING, Seconds
from tests.worker.lingering import Lingering, came_back
from tests.worker.subjects import Case, cases, seen, working

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.jobs.lease import QueueDemand, RescueQuota
    from tests.worker.subjects import DatabaseOf

AWAITED = cases(kinds=["sqlite", "postgres"], colours=["async"], ways=["leased"])


def just_started() -> Host:
    """A machine that was started now."""
    started = time.monotonic()
    return Host(monotonic=lambda: time.monotonic() - started)


class Counted:
    """A call that counts how often it was made."""

    def __init__(self, call: Callable[[], list[QueueDemand]]) -> None:
        self._call = call
        self.calls = 0

    def __call__(self) -> list[QueueDemand]:
        wants = self._call()
        self.calls += 1
        return wants


class Rounds:
    """A desk of two slots, and rounds in which it is given what it asks for of those due."""

    def __init__(self, seconds: Seconds) -> None:
        self.desk = Slots({"a": 2}, seconds.host)
        self.queue = self.desk.queues["a"]
        self.order: list[int] = []
        self._given = 0

    def turns(self) -> RescueQuota:
        """What it would take just now of those that came back."""
        wants = self.desk.wants()
        return wants[0].turns if wants else NO_RESCUE_QUOTA

    def give(self, *due: int) -> list[Execution]:
        """One round in which as many as are wanted of these are due."""
        wants = self.desk.wants()
        found: list[int] = []
        for times, limit in wants[0].turns.limits_by_rescues() if wants else []:
            if limit and not found and times in due:
                found = [times] * limit
        begun = [self._run(times) for times in found]
        self.desk.record_batch(wants, [run.leased for run in begun], staged=True)
        self.order += found
        return begun

    def end(self, run: Execution) -> None:
        """A job has ended, and that is committed."""
        run.ended = DONE
        self.desk.free_slot(run)

    def _run(self, rescues: int) -> Execution:
        self._given += 1
        id = str(self._given)
        run = Execution(
            LeasedJob(Lease(id, b"", 1), "", "nothing", "a", None, None, 0, rescues, 1, 0),
            NOTHING,
            None,
            self.desk._host,
        )
        self.desk.occupy(run)
        run.handler_started_at = run.leased_at
        return run


def test_of_those_that_came_back_neither_kind_keeps_the_other_waiting(
    seconds: Seconds,
) -> None:
    rounds = Rounds(seconds)
    rounds.queue.reserve_for_due(2)
    running: list[Execution] = []
    for _ in range(30):
        running += rounds.give(1, 2)
        rounds.end(running.pop(0))  # one slot is free again, the other may not be
    assert rounds.order[:9] == [1, 1, 2, 1, 1, 2, 1, 1, 2]


def test_those_that_came_back_once_wait_for_nobody_where_none_did_twice(
    seconds: Seconds,
) -> None:
    rounds = Rounds(seconds)
    rounds.queue.reserve_for_due(2)
    first, second = rounds.give(1)
    assert not rounds.turns().rescued
    rounds.end(first)
    rounds.end(second)
    [kept, _] = rounds.give(1)  # another worker has taken the one that came back twice
    rounds.end(kept)
    assert rounds.turns().rescued == 1


def test_one_that_has_run_for_long_keeps_no_other_waiting(seconds: Seconds) -> None:
    rounds = Rounds(seconds)
    first, _ = rounds.give(1)
    rounds.end(first)
    assert not rounds.turns().lone
    seconds.now += SUSPECT_SECONDS + 0.01
    assert rounds.turns().lone


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_job_that_came_back_twice_is_not_kept_waiting_by_those_that_did_once(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "PAUSES", WorkerPauses(rescued=0.05))
    monkeypatch.setattr(
        quarantine, "SUSPECT_SECONDS", 10 * PATIENCE
    )  # "once" is suspected however slow it is
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        async with working(subject, queues={"default": 2}) as started:
            desk = started._executor.slots
            await came_back(subject, 1, "once")
            await works.run("once")
            await came_back(subject, 2, "twice")
            await seen(lambda: desk.queues["default"].rescue_turns._twice_due)
            # A round that began before this was known may still be on its way to the database,
            # and would take what comes next. The one after it knows.
            asked = Counted(desk.wants)
            monkeypatch.setattr(desk, "wants", asked)
            await seen(lambda: asked.calls > 0)
            await came_back(subject, 1, "later")
            works.let_go("once")
            await works.run("twice")
            works.let_go("twice", "later")
            await seen(lambda: subject.records.states() == [])
        assert works.beside == {"once": [], "twice": [], "later": []}


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_many_that_came_back_twice_do_not_wait_for_the_next_look_one_by_one(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "STAGE", 3600.0)
    works = Lingering()
    names = [f"fresh {number}" for number in range(400)]
    works.let_go("twice", *names)
    async with case.open(place) as subject:
        monkeypatch.setattr(subject.app, "_host", just_started())
        subject.job(works)
        for name in names:
            await subject.enqueue(payload=name)
        for _ in range(3):
            await came_back(subject, 2, "twice")
        async with working(subject, queues={"default": 2}):
            await seen(lambda: works.ended.count("twice through") == 3)
            assert len(works.ended) < len(names), "they had to wait until nothing else was left"
