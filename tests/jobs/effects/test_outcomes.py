"""A step is taken once, or nobody knows: what each end leaves behind, and what a repeat does."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from tests.jobs.effects.benches import Bench, Crash, raising
from tests.jobs.enqueue.desks import CASES, Case

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
# None and its like are outcomes, too: a repeat must not take them for a step that is missing.
RESULTS: list[Any] = [None, False, 0, "", [], {}, 0.5, "id_1", {"id": ["\0", "\ud800", 2**70]}]


class NotSent(ConnectionError):
    """The outside world certainly did not see it."""


@everywhere
def test_a_repeat_returns_the_stored_outcome_whatever_it_is(case: Case, bench: Bench) -> None:
    for place, result in enumerate(RESULTS):
        name = f"step {place}"
        assert bench.effect(lambda found=result: found, name) == result  # type: ignore[misc]
        again = bench.effect(lambda: pytest.fail("a second effect"), name)
        assert (again, type(again)) == (result, type(result))
    assert len(bench.calls) == len(set(bench.calls)) == len(RESULTS)
    bench.take_over()
    for place, result in enumerate(RESULTS):
        assert bench.effect(lambda: pytest.fail("a third effect"), f"step {place}") == result


@everywhere
def test_the_intent_is_committed_before_the_call_and_the_outcome_after_it(
    case: Case, bench: Bench
) -> None:
    seen: list[Any] = []

    def answer() -> str:
        seen.append(bench.states())
        return "charged"

    bench.effect(answer)

    assert seen == [[("charge", "intended", None)]]
    assert bench.states() == [("charge", "done", b'"charged"')]


@everywhere
def test_the_call_gets_the_key_of_its_step(case: Case, bench: Bench) -> None:
    bench.effect()
    bench.effect(name="refund")

    assert bench.calls == [bench.job.key("charge"), bench.job.key("refund")]
    stored = bench.desk.rows(
        "SELECT key FROM duly_effects WHERE scope = 'job:{name}' ORDER BY name"
    )
    assert [key for (key,) in stored] == bench.calls


@everywhere
def test_after_a_crash_in_between_the_step_is_taken_again_with_the_same_key(
    case: Case, bench: Bench
) -> None:
    with pytest.raises(Crash):
        bench.effect(raising(Crash()))
    crashed = bench.states()
    bench.take_over()

    assert crashed == [("charge", "intended", None)]
    assert bench.effect() == "charged"
    assert len(bench.calls) == 2
    assert len(set(bench.calls)) == 1
    assert bench.states() == [("charge", "done", b'"charged"')]


@everywhere
@pytest.mark.parametrize("problem", [Crash(), TimeoutError("no answer")], ids=repr)
def test_a_parked_step_whose_outcome_nobody_knows_is_not_taken_again(
    case: Case, bench: Bench, problem: BaseException
) -> None:
    with pytest.raises(type(problem)):
        bench.effect(raising(problem), unknown="park")
    bench.take_over()
    before = bench.states()

    with pytest.raises(duly.Dead, match="it is unknown whether effect 'charge'") as told:
        bench.effect(lambda: pytest.fail("a second effect"), unknown="park")

    assert bench.job.key("charge") in str(told.value)
    assert f"app.jobs.resolve('{bench.leased.id}', 'charge', done=" in str(told.value)
    assert len(bench.calls) == 1
    assert bench.states() == before


@everywhere
def test_a_step_that_was_interrupted_is_unknown_in_the_same_run_too(
    case: Case, bench: Bench
) -> None:
    """As where a handler gives up waiting for it, and asks again."""
    with pytest.raises(Crash):
        bench.effect(raising(Crash()))
    with pytest.raises(duly.Dead, match="it is unknown whether"):
        bench.effect(lambda: pytest.fail("a second effect"), unknown="park")

    assert bench.states() == [("charge", "intended", None)]


@everywhere
def test_a_check_that_finds_the_step_done_ends_it(case: Case, bench: Bench) -> None:
    asked: list[str] = []
    answers = {"step": "ch_1", "no": False, "zero": 0, "empty": ""}
    for name in answers:
        with pytest.raises(Crash):
            bench.effect(raising(Crash()), name, unknown=lambda _: pytest.fail("asked too soon"))
    bench.take_over()

    for name, found in answers.items():

        def check(key: str, found: Any = found) -> Any:
            asked.append(key)
            return found

        for _ in range(2):  # and then it is known
            again = bench.effect(lambda: pytest.fail("a second effect"), name, unknown=check)
            assert again == found
    assert asked == bench.calls == [bench.job.key(name) for name in answers]


@everywhere
def test_a_check_that_finds_nothing_lets_the_step_be_taken(case: Case, bench: Bench) -> None:
    with pytest.raises(Crash):
        bench.effect(raising(Crash()))
    bench.take_over()

    assert bench.effect(unknown=lambda _: None) == "charged"
    assert len(bench.calls) == 2


@everywhere
def test_a_check_that_fails_changes_nothing(case: Case, bench: Bench) -> None:
    def check(key: str) -> Any:
        raise OSError("the provider is down")

    with pytest.raises(Crash):
        bench.effect(raising(Crash()))
    bench.take_over()
    with pytest.raises(OSError, match="the provider is down"):
        bench.effect(lambda: pytest.fail("a second effect"), unknown=check)

    assert bench.states() == [("charge", "intended", None)]
    assert bench.effect() == "charged"


@everywhere
def test_an_error_leaves_the_step_unknown_and_reaches_the_handler(case: Case, bench: Bench) -> None:
    problem = TimeoutError("no answer")
    with pytest.raises(TimeoutError) as caught:
        bench.effect(raising(problem))

    assert caught.value is problem
    assert bench.states() == [("charge", "unknown", None)]
    assert bench.effect() == "charged"
    assert len(set(bench.calls)) == 1


@everywhere
def test_an_error_that_says_not_done_leaves_nothing(case: Case, bench: Bench) -> None:
    with pytest.raises(NotSent):
        bench.effect(raising(NotSent()), unknown="park", not_done=(ConnectionError,))
    undone = bench.states()

    assert undone == []
    assert bench.effect(unknown="park") == "charged"
    assert len(set(bench.calls)) == 1


@everywhere
def test_a_step_that_may_have_happened_is_not_forgotten_because_a_later_try_did_not(
    case: Case, bench: Bench
) -> None:
    with pytest.raises(Crash):
        bench.effect(raising(Crash()))
    bench.take_over()
    with pytest.raises(NotSent):
        bench.effect(raising(NotSent()), not_done=(NotSent,))

    assert [name for name, _, _ in bench.states()] == ["charge"]
    with pytest.raises(duly.Dead, match="it is unknown whether"):
        bench.effect(lambda: pytest.fail("another effect"), unknown="park")
    with pytest.raises(NotSent):  # unless somebody looked, and it had not happened
        bench.effect(raising(NotSent()), unknown=lambda _: None, not_done=(NotSent,))
    assert bench.states() == []


@everywhere
def test_a_result_that_cannot_be_kept_does_not_let_the_step_happen_again(
    case: Case, bench: Bench
) -> None:
    results: list[object] = [object(), {1: 2}, (1, 2), float("nan"), "x" * 1_100_000]
    for place, result in enumerate(results):
        with pytest.raises(duly.errors.NotStorable):
            bench.effect(lambda found=result: found, str(place))  # type: ignore[misc]
        with pytest.raises(duly.Dead, match="could not be stored: say what it was"):
            bench.effect(lambda: pytest.fail("a second effect"), str(place))

    assert [(name, state) for name, state, _ in bench.states()] == [
        (str(place), "done") for place in range(len(results))
    ]
    assert len(bench.calls) == len(results)


@everywhere
def test_another_job_of_the_same_name_has_effects_of_its_own(case: Case, bench: Bench) -> None:
    bench.effect()
    bench.desk.enqueue()
    bench.leased = bench.desk.lease()

    assert bench.effect(lambda: "charged again") == "charged again"
    assert len(set(bench.calls)) == 2
