"""Who lost the lease takes no step, and writes nothing about one that was taken."""

from __future__ import annotations

import pytest

import duly
from duly.jobs.job import Job
from tests.jobs.effects.benches import Bench, raising
from tests.jobs.enqueue.desks import CASES, Case

everywhere = pytest.mark.parametrize("case", CASES, ids=str)


@everywhere
def test_a_lost_lease_is_found_before_the_step_is_taken(case: Case, bench: Bench) -> None:
    bench.steal()
    with pytest.raises(duly.errors.LeaseLost):
        bench.effect()

    assert bench.calls == []
    assert bench.states() == []


@everywhere
def test_a_stale_lease_does_not_even_see_a_stored_outcome(case: Case, bench: Bench) -> None:
    bench.effect()
    stale = bench.job
    bench.take_over()
    with pytest.raises(duly.errors.LeaseLost):
        bench.effect(job=stale)

    assert len(bench.calls) == 1
    assert bench.effect() == "charged"


@everywhere
@pytest.mark.parametrize(
    "answer", [lambda: "late", raising(TimeoutError()), raising(ConnectionError())]
)
def test_a_lease_lost_during_the_step_leaves_the_intent_as_it_was(
    case: Case, bench: Bench, answer: object
) -> None:
    def slow() -> object:
        bench.steal()
        return answer()  # type: ignore[operator]

    with pytest.raises(duly.errors.LeaseLost):
        bench.effect(slow, not_done=(ConnectionError,))

    assert bench.states() == [("charge", "intended", None)]


@everywhere
def test_a_late_outcome_does_not_replace_that_of_the_newer_run(case: Case, bench: Bench) -> None:
    stale = bench.job

    def slow() -> str:
        bench.take_over()
        newer = Job(bench.leased, bench.desk.name, None, bench.desk.app.store.sync_runner)
        assert newer.effect("charge", lambda _: "the newer one") == "the newer one"
        return "too late"

    with pytest.raises(duly.errors.LeaseLost):
        bench.effect(slow, job=stale)

    assert bench.states() == [("charge", "done", b'"the newer one"')]
    assert bench.effect() == "the newer one"


@everywhere
def test_a_settled_job_takes_no_more_steps(case: Case, bench: Bench) -> None:
    bench.desk.change("DELETE FROM duly_jobs WHERE name = '{name}'")
    with pytest.raises(duly.errors.LeaseLost):
        bench.effect()

    assert bench.calls == []
    assert bench.states() == []
