"""Recognise the time of a run in the values that it wrote, in any form."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

# Seconds on either side: clocks of databases and of hosts differ, and so do time zones.
SLACK = 120.0
ZONES = 15 * 3600.0
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?")


class Span(NamedTuple):
    """From when until when it ran, in seconds since 1970."""

    begin: float
    end: float
    # How far the application's clock was ahead of the machine's.
    ahead: float = 0.0

    def by_the_application(self) -> Span:
        """The same time as the application's clock tells it."""
        return Span(self.begin + self.ahead, self.end + self.ahead)


def is_moment(value: Any, span: Span) -> bool:
    """Whether it says when the run was: a date and time, or a count since 1970."""
    if isinstance(value, bool) or value is None:
        return False
    if span.ahead and is_moment(value, span.by_the_application()):
        return True
    if isinstance(value, int | float):
        return any(
            span.begin - SLACK <= value / unit <= span.end + SLACK for unit in (1, 1e3, 1e6, 1e9)
        )
    moment = moment_of(value)
    return moment is not None and span.begin - ZONES <= moment <= span.end + ZONES


def moment_of(value: Any) -> float | None:
    """A date and time, as seconds since 1970; without a zone it is taken for UTC."""
    if isinstance(value, str) and TIME.match(value):
        try:
            value = datetime.fromisoformat(value.strip().removesuffix(" UTC"))
        except ValueError:
            return None
    if isinstance(value, datetime):
        known = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return known.timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    return None


def await_next_second() -> None:
    """Wait until a clock that is kept by the second says something else."""
    time.sleep(1 - time.time() % 1)
