"""A clock that only a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.errors import UsageError
from duly.core.validation import kind

if TYPE_CHECKING:
    from duly.core.clock import Clock

ZERO = timedelta(0)
# What is never settled would keep a test for ever.
MOST_MOVES = 1000


class HandClock:
    """A clock moved by hand, for ``Duly(clock=…)``.

    It stands still but for a microsecond at each look, so that what came later is later.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._moment = datetime.now(UTC) if start is None else checked_moment(start)

    def __call__(self) -> datetime:
        """The time, a microsecond later than at the last look."""
        self._moment += MICROSECOND
        return self._moment

    @property
    def now(self) -> datetime:
        """The time, without moving it."""
        return self._moment

    def advance(
        self,
        by: timedelta = ZERO,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        microseconds: float = 0,
    ) -> datetime:
        """Move on: ``advance(hours=2)``, or by a timedelta; returns the new time."""
        if not isinstance(by, timedelta):
            raise UsageError(f"advance takes hours=2, or a timedelta, not {kind(by)}")
        step = by + timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds
        )
        if step < ZERO:
            raise UsageError("a clock advances, it does not go back: clock.move_to(…) sets it")
        self._moment += step
        return self._moment

    def move_to(self, moment: datetime) -> datetime:
        """Set it to a moment, also to an earlier one."""
        self._moment = checked_moment(moment)
        return self._moment

    def __repr__(self) -> str:
        return f"HandClock({self._moment.isoformat()})"


def checked_moment(moment: object) -> datetime:
    """A moment that means the same on every machine."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise UsageError(
            "the time of a clock must be an aware datetime: datetime(2026, 1, 1, tzinfo=UTC)"
        )
    return moment


def time_of(clock: Clock | None) -> datetime:
    """The time that an application goes by."""
    return datetime.now(UTC) if clock is None else clock()


class ClockMover:
    """Moves a clock to each next due time, and raises where nothing runs there."""

    def __init__(self, clock: HandClock | None) -> None:
        if clock is None:
            raise UsageError(
                'until="settled" moves the clock to what is due next: use the fixture, or '
                "pass clock=, the HandClock that the app was made with"
            )
        self._clock = clock
        self._left = MOST_MOVES
        # How much had ended when it was last moved on, if it was.
        self._ended: int | None = None

    def move(self, wait: timedelta, ended: int) -> None:
        """Move on by ``wait``; ``ended`` is how many runs have ended so far."""
        self._left -= 1
        if self._left < 0:
            raise UsageError(
                f"after {MOST_MOVES:,} moves of the clock there is still something to do: use "
                'until="idle"'
            )
        if self._ended == ended:  # what it was moved to should have run
            raise UsageError(
                "the clock was moved, and the app did not notice: make it with clock=duly_clock"
            )
        self._ended = ended if wait > ZERO else None
        self._clock.advance(wait)
