"""Promises of what a handler can answer, and of the wait before the next attempt: pure values."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from duly.core.retry import RESCUE_BACKOFF, RESCUE_LIMIT, Backoff, Dead, NotYet, Outcome, Retry
from duly.errors import UsageError

SECOND = 1_000_000
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

DURATIONS = some.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_525))
BACKOFFS = some.builds(
    lambda one, other, factor: Backoff(min(one, other), factor, max(one, other)),
    DURATIONS,
    DURATIONS,
    some.floats(1, 100) | some.integers(1, 100),
)


def test_every_outcome_can_be_raised_and_caught_as_one_kind() -> None:
    for outcome in (Retry(), Dead("no such order"), NotYet()):
        with pytest.raises(Outcome) as caught:
            raise outcome
        assert caught.value is outcome


def test_a_retry_without_a_time_leaves_the_time_to_the_backoff() -> None:
    assert Retry().after is None
    assert Retry(timedelta(0)).after == timedelta(0)
    assert (Retry(reason="busy").reason, Retry(timedelta(seconds=9)).reason) == ("busy", "")


def test_not_yet_looks_every_half_minute_for_a_day_unless_told_otherwise() -> None:
    assert (NotYet().after, NotYet().until) == (timedelta(seconds=30), timedelta(days=1))
    assert NotYet("no order").reason == "no order"


def test_the_patience_of_not_yet_is_a_time_from_the_enqueueing_or_a_moment() -> None:
    assert NotYet(until=timedelta(hours=1)).until == timedelta(hours=1)
    assert NotYet(until=NOON).until == NOON


def test_an_outcome_says_its_reason_as_text_and_all_of_itself_as_repr() -> None:
    assert [str(Dead("no such order")), str(Retry(reason="busy")), str(Retry()), str(NotYet())] == [
        "no such order",
        "busy",
        "Retry",
        "NotYet",
    ]
    assert repr(Dead("gone")) == "Dead('gone')"
    assert repr(Retry(timedelta(1), "x")) == "Retry(after=datetime.timedelta(days=1), reason='x')"
    assert repr(NotYet("x", until=NOON)) == (
        f"NotYet('x', after=datetime.timedelta(seconds=30), until={NOON!r})"
    )


@pytest.mark.parametrize(
    "outcome",
    [
        Retry(timedelta(seconds=3), "busy"),
        Dead("gone"),
        NotYet("x", after=timedelta(1), until=NOON),
    ],
)
def test_an_outcome_comes_back_from_another_process_as_it_was(outcome: Outcome) -> None:
    again = pickle.loads(pickle.dumps(outcome))
    assert (type(again), repr(again)) == (type(outcome), repr(outcome))


@pytest.mark.parametrize(
    ("kind", "arguments", "options", "remedy"),
    [
        (Retry, (30,), {}, r"after must be a datetime.timedelta, not an int: write timedelta"),
        (Retry, ("busy",), {}, r'write Retry\(reason="…"\)'),
        (Retry, (timedelta(seconds=-1),), {}, r"after must be between 0:00:00 and"),
        (Retry, (timedelta.max,), {}, r"after must be between"),
        (Retry, (None, 7), {}, r'reason must be a string, not an int: write reason="'),
        (Dead, (ValueError("x"),), {}, r"write reason=str\(problem\)"),
        (Dead, ("",), {}, r'write Dead\("no such order"\)'),
        (Dead, (" \n",), {}, r'write Dead\("no such order"\)'),
        (Dead, (None,), {}, r"reason must be a string, not None"),
        (NotYet, (timedelta(1),), {}, r"reason must be a string, not a timedelta"),
        (NotYet, (), {"after": timedelta(0)}, r"after must be between 0:00:00.001000 and"),
        (NotYet, (), {"after": None}, r"after must be a datetime.timedelta, not None"),
        (NotYet, (), {"until": timedelta(0)}, r"until must be between"),
        (NotYet, (), {"until": 60}, r"until must be a timedelta or a datetime, not an int: write"),
        (NotYet, (), {"until": datetime(2026, 3, 1)}, r"until has no time zone: write datetime"),
        (Backoff, (5,), {}, r"first must be a datetime.timedelta, not an int: write timedelta"),
        (Backoff, (timedelta(seconds=-5),), {}, r"first must be between 0:00:00"),
        (Backoff, (), {"cap": timedelta(seconds=4)}, r"cap must be at least as long as first"),
        (Backoff, (), {"cap": 3600}, r"cap must be a datetime.timedelta"),
        (Backoff, (), {"factor": 0.99}, r"factor must be a number from 1 to 100, not 0.99: write"),
        (Backoff, (), {"factor": 101}, r"factor must be a number from 1 to 100"),
        (Backoff, (), {"factor": float("nan")}, r"factor must be a number from 1 to 100"),
        (Backoff, (), {"factor": float("inf")}, r"factor must be a number from 1 to 100"),
        (Backoff, (), {"factor": True}, r"factor must be a number, not a bool: write factor=2"),
        (Backoff, (), {"factor": "2"}, r"factor must be a number, not a str: write factor=2"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_to_write(
    kind: Any, arguments: tuple[Any, ...], options: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy):
        kind(*arguments, **options)


def test_the_wait_doubles_from_five_seconds_up_to_an_hour() -> None:
    longest = [Backoff().delay(attempt, 1.0) / SECOND for attempt in range(1, 13)]
    assert longest == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]


def test_the_wait_is_drawn_evenly_from_nothing_on() -> None:
    backoff = Backoff(timedelta(seconds=8), 3, timedelta(minutes=1))
    assert [backoff.delay(2, draw) / SECOND for draw in (0.0, 0.25, 0.5, 0.75)] == [0, 6, 12, 18]


@given(BACKOFFS, some.integers(1, 10_000), some.floats(0, 1, exclude_max=True))
def test_no_wait_is_negative_longer_than_the_cap_or_too_large_to_compute(
    backoff: Backoff, attempt: int, draw: float
) -> None:
    delay = backoff.delay(attempt, draw)
    assert isinstance(delay, int)
    assert timedelta(0) <= timedelta(microseconds=delay) <= backoff.cap
    assert backoff.delay(attempt, draw) <= backoff.delay(attempt + 1, draw)


def test_the_ten_thousandth_attempt_waits_no_longer_than_the_cap() -> None:
    assert Backoff().delay(10_000, 0.5) == 1_800 * SECOND
    assert Backoff(factor=100).delay(10_000, 0.5) == 1_800 * SECOND
    assert Backoff(factor=1).delay(10_000, 0.5) == 2.5 * SECOND
    assert Backoff(first=timedelta(0)).delay(10_000, 0.5) == 0


def test_a_rescued_job_comes_back_within_seconds_first_and_within_minutes_at_last() -> None:
    waits = [RESCUE_BACKOFF.delay(rescue, 1.0) / SECOND for rescue in range(1, RESCUE_LIMIT + 1)]
    assert waits == [1, 4, 16, 64, 256]
