"""Time as whole microseconds since 1970, UTC: one form for every store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from duly.core.errors import UsageError

Clock = Callable[[], datetime]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_microseconds(moment: datetime) -> int:
    """Whole microseconds since 1970; a moment without a time zone is refused."""
    if moment.utcoffset() is None:
        raise UsageError(
            "a datetime without a time zone is ambiguous: use datetime.now(timezone.utc)"
        )
    return (moment - EPOCH) // MICROSECOND


def from_microseconds(stored: int) -> datetime:
    """The aware UTC datetime that `to_microseconds` came from."""
    return EPOCH + timedelta(microseconds=stored)
