"""A clock cranked by hand: it moves when it is told to, and never by itself."""

from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly.testing import HandClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_time_passes_when_it_is_told_to() -> None:
    clock = HandClock(NOON)
    assert clock.advance(hours=2, minutes=5) == NOON + timedelta(hours=2, minutes=5)
    assert (
        clock.advance(timedelta(seconds=1)) == clock.now == NOON + timedelta(hours=2, seconds=301)
    )


def test_each_look_is_later_than_the_one_before_by_next_to_nothing() -> None:
    clock = HandClock(NOON)
    looks = [clock() for _ in range(1000)]
    assert looks == sorted(set(looks))
    assert looks[-1] - NOON == timedelta(milliseconds=1)


def test_it_can_be_set_to_any_moment() -> None:
    clock = HandClock(NOON)
    assert clock.move_to(NOON - timedelta(days=365)) == clock.now == NOON - timedelta(days=365)


def test_it_begins_now() -> None:
    before = datetime.now(UTC)
    assert before <= HandClock().now <= datetime.now(UTC)


def test_it_does_not_go_back_by_accident() -> None:
    clock = HandClock(NOON)
    with pytest.raises(duly.errors.UsageError, match="move_to"):
        clock.advance(hours=-1)
    with pytest.raises(duly.errors.UsageError, match="timedelta"):
        clock.advance(2)  # type: ignore[arg-type]
    assert clock.now == NOON


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01"])
def test_a_moment_without_a_time_zone_is_refused(moment: object) -> None:
    with pytest.raises(duly.errors.UsageError, match="aware datetime"):
        HandClock(moment)  # type: ignore[arg-type]
    with pytest.raises(duly.errors.UsageError, match="aware datetime"):
        HandClock().move_to(moment)  # type: ignore[arg-type]
