"""What a handler can answer instead of finishing, and how long a job waits before it runs again.

Each answer may be raised or returned; it means the same either way.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta

from duly.core.clock import MICROSECOND, to_microseconds
from duly.core.errors import UsageError
from duly.core.exports import export
from duly.core.validation import checked_duration, kind

# A look costs no attempt, so nothing but this keeps a job from asking without a pause.
SHORTEST_LOOK = timedelta(milliseconds=1)
LEAST_FACTOR, MOST_FACTOR = 1, 100


class Outcome(Exception):
    """What a handler decided about its job; the root of `Retry`, `Dead` and `NotYet`."""

    reason: str = ""

    def __str__(self) -> str:
        return self.reason or type(self).__name__


@export
class Retry(Outcome):
    """Run the job again, ``after`` that long or by its backoff; this run counts as an attempt."""

    def __init__(self, after: timedelta | None = None, reason: str = "") -> None:
        if isinstance(after, str):
            raise UsageError('Retry takes the time first: write Retry(reason="…")')
        if after is not None:
            checked_duration("after", after, least=timedelta(0))
        self.after = after
        self.reason = checked_reason(reason)
        super().__init__(after, reason)  # what a pickle hands back to this constructor

    def __repr__(self) -> str:
        return f"Retry(after={self.after!r}, reason={self.reason!r})"


@export
class Dead(Outcome):
    """Never run the job again: it becomes a dead letter, with the reason for people to read."""

    def __init__(self, reason: str) -> None:
        self.reason = checked_reason(reason)
        if not self.reason.strip():
            raise UsageError(
                'say why, for the reader of the dead letter: write Dead("no such order")'
            )
        super().__init__(reason)

    def __repr__(self) -> str:
        return f"Dead({self.reason!r})"


@export
class NotYet(Outcome):
    """Something must happen elsewhere first: look again ``after`` that long, at no attempt's cost.

    The job is dead when it still says so at ``until``: a moment, or how long after it was
    first due.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        after: timedelta = timedelta(seconds=30),
        until: timedelta | datetime = timedelta(days=1),
    ) -> None:
        checked_duration("after", after, least=SHORTEST_LOOK)
        self.after = after
        self.until = checked_until(until)
        self.reason = checked_reason(reason)
        super().__init__(reason)

    def deadline(self, due: int) -> int:
        """When to give up on a job that was first due then; both in microseconds since 1970."""
        if isinstance(self.until, datetime):
            return to_microseconds(self.until)
        return due + self.until // MICROSECOND

    def __repr__(self) -> str:
        return f"NotYet({self.reason!r}, after={self.after!r}, until={self.until!r})"


@export
@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a job waits after each failed attempt: exponential, capped, with full jitter.

    The wait is drawn evenly from zero to ``first``, then to ``factor`` times that, and so on up to
    ``cap``, so that jobs that failed together do not come back together.
    """

    first: timedelta = timedelta(seconds=5)
    factor: float = 2.0
    cap: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        checked_duration("first", self.first, least=timedelta(0))
        checked_duration("cap", self.cap, least=timedelta(0))
        checked_factor(self.factor)
        if self.cap < self.first:
            raise UsageError(
                f"cap must be at least as long as first, {self.first}, and is {self.cap}: "
                f"write cap={self.first!r} or a shorter first"
            )

    def delay(self, attempt: int, draw: float) -> int:
        """Microseconds to wait after this attempt (1, 2, …); ``draw`` is from 0 up to, not, 1."""
        try:
            growth = float(self.factor) ** max(attempt - 1, 0)
        except OverflowError:
            growth = sys.float_info.max  # finite, so that nothing times this is still nothing
        return int(draw * min(self.cap // MICROSECOND, self.first // MICROSECOND * growth))


def checked_reason(reason: object) -> str:
    """The words for people."""
    if isinstance(reason, BaseException):
        raise UsageError("reason must be a string, not an exception: write reason=str(problem)")
    if not isinstance(reason, str):
        raise UsageError(
            f'reason must be a string, not {kind(reason)}: write reason="no stock yet"'
        )
    return reason


def checked_until(until: object) -> timedelta | datetime:
    """The end of patience: an aware moment, or how long after the job was first due."""
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise UsageError(
                "until has no time zone: write datetime.now(timezone.utc) + timedelta(hours=1), or "
                "timedelta(hours=1) to count from when the job was enqueued"
            )
        return until
    if not isinstance(until, timedelta):
        raise UsageError(
            f"until must be a timedelta or a datetime, not {kind(until)}: write "
            "timedelta(hours=1) to count from when the job was enqueued"
        )
    checked_duration("until", until)
    return until


def checked_factor(factor: object) -> None:
    """By how much each wait is longer than the one before."""
    if not isinstance(factor, int | float) or isinstance(factor, bool):
        raise UsageError(f"factor must be a number, not {kind(factor)}: write factor=2")
    if not LEAST_FACTOR <= factor <= MOST_FACTOR:  # NaN is not, either
        raise UsageError(
            f"factor must be a number from {LEAST_FACTOR} to {MOST_FACTOR}, not {factor}: write "
            "factor=2 to double the wait each time, factor=1 to keep it"
        )


# A lost worker is mostly a deploy or a crash that is over in seconds: the first wait is short. A
# job that kills its workers is kept from the fifth of them for minutes, and the cap keeps an honest
# one from being late by more.
RESCUE_BACKOFF = Backoff(first=timedelta(seconds=1), factor=4, cap=timedelta(minutes=5))
# An honest job may lose its worker twice to deploys; five times in a row, it is the cause.
RESCUE_LIMIT = 5
