"""Deliveries share commits: two under way at most, none when idle, and a bound on what waits."""

import time
from datetime import timedelta

import pytest

from tests.receiver.faults.doors import PATIENCE
from tests.receiver.faults.gates import gated, occupied, queued
from tests.receiver.faults.shops import Shop
from tests.support.processes import until

pytestmark = pytest.mark.slow

MANY = 30
SHORT = timedelta(seconds=2)
# For those who are held at a gate: on a busy machine a test may take longer than five seconds.
PATIENT = timedelta(seconds=60)
# What a busy machine adds, in seconds; less than the deadline of those who name none.
IN_TIME = 4.5


def test_two_batches_are_under_way_at_most_and_none_when_idle(url: str, way: str) -> None:
    with Shop(url, way, deadline=PATIENT) as shop:
        gate = gated(shop.app, way)
        shop.warm()
        assert (gate.under_way, gate.batches) == (0, 1)
        first = occupied(shop, gate)
        under_way = [shop.send(shop.delivery()) for _ in range(MANY)]
        queued(shop.app, way, MANY)
        gate.open()
        for answer in [*first, *under_way]:
            assert answer.result(PATIENCE).said == "accepted"
        assert gate.most == 2
        assert gate.under_way == 0
        assert gate.batches < MANY, "nobody shared a commit"


def test_a_lone_request_is_committed_at_once(url: str, way: str) -> None:
    """A timer that gathers would show in every one of them."""
    with Shop(url, way) as shop:
        gate = gated(shop.app, way)
        shop.warm()
        took: list[float] = []

        def quick() -> bool | None:
            delivery = shop.delivery()
            begun = time.monotonic()
            assert shop.post(delivery).said == "accepted"
            took.append(time.monotonic() - begun)
            return (len(took) >= 20 and min(took) < 0.03) or None

        assert until(quick)
        assert gate.batches == len(took) + 1


def test_more_than_may_wait_is_told_to_come_again_and_nothing_is_lost(url: str, way: str) -> None:
    with Shop(url, way, queue=5, deadline=PATIENT) as shop:
        gate = gated(shop.app, way)
        shop.warm()
        waiting = occupied(shop, gate)
        waiting += [shop.send(shop.delivery()) for _ in range(5)]
        queued(shop.app, way, 5)
        surplus = [shop.delivery() for _ in range(3)]
        for answer in shop.post_all(surplus):
            assert answer.come_again
            assert answer.said == "OVERLOADED"
        gate.open()
        assert all(answer.result(PATIENCE).said == "accepted" for answer in waiting)
        assert [shop.post(delivery).said for delivery in surplus] == ["accepted"] * 3


def test_who_waits_longer_than_the_deadline_is_told_to_come_again(url: str, way: str) -> None:
    """Those under way may be committed afterwards; those that were not taken yet are not."""
    with Shop(url, way, deadline=SHORT) as shop:
        gate = gated(shop.app, way)
        shop.warm()
        leading = occupied(shop, gate)
        deliveries = [shop.delivery() for _ in range(4)]
        begun = time.monotonic()
        following = [shop.send(delivery) for delivery in deliveries]
        assert all(answer.result(PATIENCE).come_again for answer in following)
        assert time.monotonic() - begun < IN_TIME
        queued(shop.app, way, 0)
        gate.open()
        assert [answer.result(PATIENCE).status for answer in leading] in ([200] * 2, [503] * 2)
        gate.full(0)
        assert len(shop.books.events()) == 3, "what nobody waits for any more was written"
        assert [shop.post(delivery).said for delivery in deliveries] == ["accepted"] * 4


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_leader_that_is_ended_hands_its_lead_on(url: str, moment: str) -> None:
    """Whoever was in its batch is told to come again; whoever was not does not notice."""
    with Shop(url, "wsgi", deadline=PATIENT) as shop:
        gate = gated(shop.app, "wsgi")
        shop.warm()
        leading = occupied(shop, gate)
        deliveries = [shop.delivery() for _ in range(10)]
        following = [shop.send(delivery) for delivery in deliveries]
        queued(shop.app, "wsgi", 10)
        setattr(gate, moment, Ending(times=3))
        gate.open()
        for answer in leading:
            with pytest.raises(SystemExit):
                answer.result(PATIENCE)
        ended = [answer for answer in following if answer.exception(PATIENCE) is not None]
        assert len(ended) == 1, "the third leader was one of those that followed"
        assert all(answer in ended or answer.result().come_again for answer in following)
        said = {shop.post(delivery).said for delivery in deliveries}
        assert said == ({"accepted"} if moment == "before" else {"duplicate"})
        both_lanes_are_free(shop)


class Ending:
    """Ends the first threads that come, as ``sys.exit`` in a signal handler would."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self) -> None:
        if self._left:
            self._left -= 1
            raise SystemExit


def both_lanes_are_free(shop: Shop) -> None:
    """Two batches can be under way again, so no lead was lost."""
    gate = shop.app.receiver._sync_runner
    gate.shut()  # type: ignore[attr-defined]  # the gate that the test put there
    waiting = [shop.send(shop.delivery()) for _ in range(2)]
    gate.full()  # type: ignore[attr-defined]
    gate.open()  # type: ignore[attr-defined]
    assert [answer.result(PATIENCE).said for answer in waiting] == ["accepted"] * 2
