"""Ids of events and jobs: UUIDs of version 7, never twice, in the order of their milliseconds."""

import re
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as some

from duly.core.ids import new_id, uuid7
from tests.support.inboxes import arrival

FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# The largest moment that forty-eight bits of milliseconds can say; far beyond any clock.
LAST = 2**48 - 1


def moment_of(made: str) -> int:
    """The milliseconds that an id begins with."""
    return uuid.UUID(made).int >> 80


def test_an_id_is_a_uuid_of_version_seven_as_text_writes_one() -> None:
    for _ in range(2000):
        made = new_id()
        assert FORM.fullmatch(made)
        read = uuid.UUID(made)
        assert str(read) == made
        assert (read.version, read.variant) == (7, uuid.RFC_4122)
    assert uuid7().version == 7


def test_an_id_says_when_it_was_made_to_the_millisecond() -> None:
    before = time.time_ns() // 1_000_000
    made = moment_of(new_id())
    assert before <= made <= time.time_ns() // 1_000_000
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=made)
    assert abs(shown - datetime.now(UTC)) < timedelta(minutes=1)


@given(some.integers(0, LAST - 1))
def test_ids_of_a_later_millisecond_sort_after_those_of_an_earlier(moment: int) -> None:
    earlier = new_id(time_ns=lambda: moment * 1_000_000 + 999_999)
    later = new_id(time_ns=lambda: (moment + 1) * 1_000_000)
    assert moment_of(earlier) == moment
    assert earlier < later
    assert uuid.UUID(earlier) < uuid.UUID(later)


def test_ids_do_not_repeat_whoever_makes_them() -> None:
    made: list[list[str]] = [[] for _ in range(8)]

    def make(mine: list[str]) -> None:
        mine.extend(new_id() for _ in range(5000))

    threads = [threading.Thread(target=make, args=[mine]) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for mine in made for one in mine}) == 8 * 5000


def test_every_bit_that_is_free_takes_both_values() -> None:
    made = [uuid.UUID(new_id()).int for _ in range(400)]
    fixed = (0xF << 76) | (0b11 << 62)
    free = ((1 << 80) - 1) & ~fixed
    always, never = free, free
    for one in made:
        always &= one
        never &= ~one
    assert (always, never) == (0, 0)


def test_the_token_of_an_arrival_is_its_id_as_sixteen_bytes(scope: str) -> None:
    one = arrival(scope, "evt_1")
    assert one.token == uuid.UUID(one.id).bytes
    assert len(one.token) == 16
