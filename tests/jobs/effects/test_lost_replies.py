"""A lost reply about an effect is not a crash in between: the record is looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.jobs.effects.benches import Bench, raising
from tests.jobs.enqueue.desks import Desk
from tests.support.proxies import Cut, Proxy, proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

each_colour = pytest.mark.parametrize("colour", ["sync", "async"])
each_cut = pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.REPLY], ids=lambda cut: cut.name)


class NotSent(ConnectionError):
    """The outside world certainly did not see it."""


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Proxy]:
    with proxy(postgres_url) as opened:
        yield opened


@pytest.fixture
def bench(wire: Proxy, colour: Any) -> Iterator[Bench]:
    """One job, leased, on the far side of the wire, with a connection open already."""
    desk = Desk(wire.url, colour, None)
    desk.job(lambda _: None)
    desk.enqueue()
    bench = Bench(desk)
    bench.effect(name="warm")
    bench.calls.clear()
    yield bench
    desk.close()


@each_colour
@each_cut
def test_an_intent_whose_reply_was_lost_is_not_taken_for_a_crash(
    cut: Cut, colour: str, wire: Proxy, bench: Bench
) -> None:
    trap = wire.set(cut, "COMMIT")

    assert bench.effect(unknown="park") == "charged"
    assert trap.sprung == 1
    assert len(bench.calls) == 1


@each_colour
@each_cut
def test_an_outcome_whose_reply_was_lost_is_kept_and_the_step_not_taken_again(
    cut: Cut, colour: str, wire: Proxy, bench: Bench
) -> None:
    def answer() -> str:
        wire.set(cut, "COMMIT")
        return "charged"

    assert bench.effect(answer, unknown="park") == "charged"
    assert wire.trap is not None
    assert wire.trap.sprung == 1
    assert bench.effect(lambda: pytest.fail("a second effect"), unknown="park") == "charged"


@each_colour
@each_cut
@pytest.mark.parametrize("problem", [NotSent(), TimeoutError()], ids=repr)
def test_a_failure_whose_reply_was_lost_is_recorded_and_its_error_is_what_the_handler_sees(
    problem: Exception, cut: Cut, colour: str, wire: Proxy, bench: Bench
) -> None:
    def answer() -> Any:
        wire.set(cut, "COMMIT")
        return raising(problem)()

    with pytest.raises(type(problem)):
        bench.effect(answer, not_done=(NotSent,))
    states = [state for name, state, _ in bench.states() if name == "charge"]

    assert wire.trap is not None
    assert wire.trap.sprung == 1
    assert states == ([] if isinstance(problem, NotSent) else ["unknown"])
