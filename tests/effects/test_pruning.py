"""What is known of a step is kept for as long as its job may run again, however old it is."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from duly._kernel.failures import plain
from duly._kernel.onestep import finish
from duly._kernel.options import PRUNE_CHUNK, WAIT
from duly.jobs.endings import Ended
from duly.jobs.leases import Settled, settle
from duly.jobs.workers import EFFECTS_KEPT, prune_effects
from tests.enqueueing.desks import CASES, Case, Desk

if TYPE_CHECKING:
    from tests.effects.benches import Bench

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
DAY = timedelta(days=1)


def given_up(bench: Bench) -> None:
    """The job that the bench has leased is dead."""
    each = [Settled(bench.leased, Ended("dead", burnt=1, error=plain("no", 1)), 0)]
    assert finish(bench.desk.app.store.blocking.run(partial(settle, each=each), wait=WAIT))


def long_after(desk: Desk) -> None:
    """The time of effects is over, and a worker removes what is old."""
    assert desk.clock is not None
    desk.clock.advance(EFFECTS_KEPT + DAY)
    finish(prune_effects(desk.app.store.blocking, PRUNE_CHUNK))


@everywhere
def test_a_step_of_a_dead_job_that_is_replayed_long_after_is_not_taken_again(
    case: Case, bench: Bench
) -> None:
    desk = bench.desk
    assert bench.effect() == "charged"
    given_up(bench)
    long_after(desk)
    assert desk.call(desk.verbs.replay, bench.leased.id).ids == (bench.leased.id,)
    bench.leased = desk.lease()
    assert bench.effect(lambda: "charged again") == "charged"
    assert len(bench.calls) == 1


@everywhere
def test_the_steps_of_a_job_that_is_through_go_at_the_end_of_their_time(
    case: Case, bench: Bench
) -> None:
    bench.effect()
    bench.desk.change("DELETE FROM duly_jobs WHERE name = '{name}'")  # as done jobs leave it
    finish(prune_effects(bench.desk.app.store.blocking, PRUNE_CHUNK))
    assert [state for _, state, _ in bench.states()] == ["done"]
    long_after(bench.desk)
    assert bench.states() == []
