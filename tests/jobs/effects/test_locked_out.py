"""A lock that somebody else has is nobody's error: it costs no attempt, and undoes no success."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.jobs import effects
from duly.worker import run_job
from tests.jobs.effects.elsewhere import Elsewhere, impatient, worked_off
from tests.jobs.effects.sources import ORDER, Feed
from tests.jobs.effects.test_workers import handled, taken
from tests.jobs.enqueue.desks import CASES, Case, Desk

if TYPE_CHECKING:
    from collections.abc import Iterator

# Many times as long as duly waits here for a lock at once.
HELD = 0.8
# Longer than anything else waits that stands before it in the queue of duly's thread.
OUTLASTING = 2.5
A_MOMENT = timedelta(milliseconds=50)
# Where duly compares versions: on SQLite in a statement of its own, on PostgreSQL inside.
BEFORE = [
    (Case("sqlite", "sync"), False),
    (Case("sqlite", "async"), False),
    (Case("postgres", "sync"), True),
    (Case("postgres", "async"), True),
]
on_sqlite = pytest.mark.parametrize("case", CASES[:2], ids=str)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that are over in a moment."""
    impatient(monkeypatch, A_MOMENT)
    monkeypatch.setattr(run_job, "BUSY", 10_000)


@pytest.fixture
def desk(case: Case, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """An application whose job the test registers."""
    with case.open(request) as opened:
        yield opened


@pytest.mark.parametrize(("case", "with_tx"), BEFORE, ids=str)
def test_a_lock_before_an_ordered_handler_puts_its_job_off_and_uses_up_no_attempt(
    case: Case, with_tx: bool, desk: Desk
) -> None:
    feed, other = Feed(desk, with_tx=with_tx), Elsewhere(desk)
    asked: list[str] = []

    def refetch(event: Any) -> None:
        asked.append(event.id)
        if asked.count("evt_2") == 1 and event.id == "evt_2":
            other.hold(OUTLASTING)

    feed.on(order=ORDER, refetch=refetch, attempts=1)
    feed.tell("evt_1", version=1)
    feed.tell("evt_2", version=2)
    worked_off(desk, lambda: len(feed.outcomes()) == 2 or feed.dead() != [])

    assert (feed.outcomes(), feed.dead()) == (["done", "done"], [])
    assert feed.seen == [("apply", 1), ("apply", 2)]
    assert asked.count("evt_2") > 1  # it was put off, and came back


@pytest.mark.parametrize("case", [one for one in CASES if one.kind != "memory"], ids=str)
def test_a_lock_after_an_ordered_handler_neither_fails_it_nor_has_it_run_again(
    case: Case, desk: Desk
) -> None:
    feed, other = Feed(desk, with_tx=False), Elsewhere(desk)

    def lock(event: Any) -> None:
        if event.id == "evt_2":
            other.hold(HELD)

    # Its time is over before the lock is free: but it has used none of it.
    feed.on(body=lock, order=ORDER, attempts=1, timeout=timedelta(seconds=HELD / 2))
    feed.tell("evt_1", version=1)
    worked = feed.tell("evt_2", version=2)

    assert (worked.done, worked.retried, worked.dead, worked.lost) == (1, 0, 0, 0)
    assert feed.seen == [("apply", 1), ("apply", 2)]
    assert feed.tell("evt_0", version=1).stale == 1  # the version was recorded


@on_sqlite
def test_a_lock_before_an_external_step_is_waited_for(case: Case, desk: Desk) -> None:
    calls: list[int] = []
    other = Elsewhere(desk)

    async def pay(job: Any) -> None:
        other.hold(HELD)
        await taken(job, "charge", lambda _: calls.append(job.rescues))

    handled(desk, pay, attempts=1)
    desk.enqueue()
    assert desk.work().done == 1
    assert calls == [0]


@on_sqlite
def test_a_lock_that_outlasts_the_wait_before_an_external_step_uses_up_no_attempt(
    case: Case, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "BEFORE", A_MOMENT.total_seconds())
    runs: list[tuple[int, int]] = []
    other = Elsewhere(desk)

    async def pay(job: Any) -> None:
        runs.append((job.attempt, job.rescues))
        if len(runs) == 1:
            other.hold(OUTLASTING)
        await taken(job, "charge", lambda _: None)

    handled(desk, pay, attempts=1)
    desk.enqueue()
    worked_off(desk, lambda: desk.outcomes() != [] or desk.jobs()[0][1] == "dead")
    assert desk.outcomes() == ["done"]
    assert runs == [(1, 0), (1, 1)]


@on_sqlite
def test_a_lock_after_an_external_step_is_waited_for_as_long_as_the_handler_may_run(
    case: Case, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "AFTER", A_MOMENT.total_seconds())
    calls: list[str] = []
    other = Elsewhere(desk)

    def charge(key: str) -> None:
        calls.append(key)
        other.hold(HELD)

    async def pay(job: Any) -> None:
        await taken(job, "charge", charge, unknown="park")

    handled(desk, pay, attempts=1)
    desk.enqueue()
    assert desk.work().done == 1
    assert len(calls) == 1
