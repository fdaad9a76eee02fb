"""What is known of a step is kept for as long as its job may run again, however old it is."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from duly.core.defaults import PRUNE_CHUNK, WAIT
from duly.core.failures import reason_record
from duly.core.onestep import finish
from duly.jobs.lease import JobSettlement, settle
from duly.jobs.outcome import JobOutcome
from duly.jobs.workers import EFFECTS_KEPT, prune_effects
from tests.jobs.dead.dying import received, with_source
from tests.jobs.enqueue.desks import CASES, Case, Desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.jobs.effects.benches import Bench

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
DAY = timedelta(days=1)


def given_up(bench: Bench) -> None:
    """The job that the bench has leased is dead."""
    each = [
        JobSettlement(
            bench.leased.lease, JobOutcome("dead", attempts_used=1, error=reason_record("no", 1))
        )
    ]
    assert finish(bench.desk.app.store.sync_runner.run(partial(settle, each=each), wait=WAIT))


def long_after(desk: Desk) -> None:
    """The time of effects is over, and a worker removes what is old."""
    assert desk.clock is not None
    desk.clock.advance(EFFECTS_KEPT + DAY)
    finish(prune_effects(desk.app.store.sync_runner, PRUNE_CHUNK))


@everywhere
def test_a_step_of_a_dead_job_that_is_replayed_long_after_is_not_taken_again(
    case: Case, bench: Bench
) -> None:
    desk = bench.desk
    assert bench.effect() == "charged"
    given_up(bench)
    long_after(desk)
    assert desk.call(desk.verbs.jobs.replay, bench.leased.id).ids == (bench.leased.id,)
    bench.leased = desk.lease()
    assert bench.effect(lambda: "charged again") == "charged"
    assert len(bench.calls) == 1


@everywhere
def test_the_steps_of_a_job_that_is_through_go_at_the_end_of_their_time(
    case: Case, bench: Bench
) -> None:
    bench.effect()
    bench.desk.change("DELETE FROM duly_jobs WHERE name = '{name}'")  # as done jobs leave it
    finish(prune_effects(bench.desk.app.store.sync_runner, PRUNE_CHUNK))
    assert [state for _, state, _ in bench.states()] == ["done"]
    long_after(bench.desk)
    assert bench.states() == []


class Till:
    """A source whose handler charges in an effect, and fails after that."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        # The idempotency key of each charge that was made.
        self.charges: list[str] = []
        self.source = with_source(desk, self._charge, attempts=1)

    def _charge(self, job: Any) -> Any:
        return self._awaited(job) if self.desk.colour == "async" else self._blocking(job)

    def _blocking(self, job: Any) -> None:
        job.effect("charge", self.charges.append)
        raise ValueError("what comes after the charge is broken")

    async def _awaited(self, job: Any) -> None:
        async def charge(key: str) -> None:
            self.charges.append(key)

        await job.effect("charge", charge)
        raise ValueError("what comes after the charge is broken")

    def deliver(self) -> None:
        """The sender delivers the one event that there is."""
        received(self.desk, "evt_1", "paid", self.source)

    def forget(self) -> None:
        """An operator forgets it."""
        self.desk.call(self.desk.verbs.forget, self.source, "evt_1")

    def replay(self) -> None:
        """An operator replays its one dead job, and it runs."""
        [(job, state)] = self.desk.jobs()
        assert state == "dead"
        assert self.desk.call(self.desk.verbs.jobs.replay, job).ids == (job,)
        self.desk.work()

    def effects(self) -> int:
        """How many effects are known."""
        scope = self.desk.app.router.routes[f"/{self.source}"].scope(None)
        return len(self.desk.rows(f"SELECT 1 FROM duly_effects WHERE scope = '{scope}'"))


@pytest.fixture
def till(case: Case, request: pytest.FixtureRequest, clock: HandClock) -> Iterator[Till]:
    """Its first job has charged, and is dead; the event was forgotten."""
    with case.open(request, clock) as desk:
        opened = Till(desk)
        opened.deliver()
        desk.work()
        opened.forget()
        yield opened


@everywhere
def test_a_step_outlives_the_dead_job_of_an_event_that_was_forgotten_and_received_again(
    case: Case, till: Till
) -> None:
    till.deliver()
    till.desk.work()
    assert len(till.charges) == 1  # known from the first job
    long_after(till.desk)
    till.replay()
    assert len(till.charges) == 1


@everywhere
def test_a_step_outlives_the_job_of_an_event_received_again_that_has_not_run_yet(
    case: Case, till: Till
) -> None:
    till.deliver()
    long_after(till.desk)
    till.desk.work()
    assert len(till.charges) == 1


@everywhere
def test_the_steps_of_an_event_that_was_forgotten_for_good_go_at_the_end_of_their_time(
    case: Case, till: Till
) -> None:
    assert till.effects() == 1
    long_after(till.desk)
    assert till.effects() == 0
