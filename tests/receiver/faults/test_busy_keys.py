"""A key that somebody holds takes one place, however many copies of its event come."""

import time
from collections import Counter

import pytest

from tests.receiver.faults.doors import PATIENCE
from tests.receiver.faults.shops import Shop
from tests.receiver.faults.test_poisoned_batches import held

pytestmark = pytest.mark.slow

# More than there are places for those who wait, and connections.
COPIES = 40
NEIGHBOURS = 10


def test_many_copies_of_a_busy_event_keep_nobody_else_waiting(
    own_postgres_url: str, way: str
) -> None:
    ended: dict[object, float] = {}
    with Shop(own_postgres_url, way) as shop:
        shop.warm()
        busy = shop.delivery("evt_held")
        copies, neighbours = [], []
        with held(own_postgres_url, "evt_held"):
            for number in range(COPIES):
                copies.append(shop.send(busy))
                if number % (COPIES // NEIGHBOURS) == 0:
                    neighbours.append(shop.send(shop.delivery()))
            for answer in [*copies, *neighbours]:
                answer.add_done_callback(lambda done: ended.setdefault(done, time.monotonic()))
            told = Counter(neighbour.result(PATIENCE).said for neighbour in neighbours)
            assert told == {"accepted": NEIGHBOURS}
            assert Counter(copy.result(PATIENCE).said for copy in copies) == {"HELD": COPIES}
            assert all(copy.result().come_again for copy in copies)
        first = min(ended[copy] for copy in copies)
        assert all(ended[neighbour] < first for neighbour in neighbours), "they waited as long"
        again = shop.post_all([busy] * COPIES)
        assert Counter(answer.said for answer in again) == {"accepted": 1, "duplicate": COPIES - 1}
