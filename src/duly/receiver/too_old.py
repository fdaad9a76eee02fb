"""Events from before the ledger's memory: which they are, and what their sender is told."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from duly.core.clock import from_microseconds
from duly.inbox.new_event import Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.receiver.new_events import RoutedDelivery
    from duly.webhooks.event_fields import EventFields

# A number that is no time of the calendar.
OUT_OF_RANGE = "out of range"


def is_too_old(delivery: RoutedDelivery, facts: EventFields) -> bool:
    """Whether it is from before the ledger's memory, so that nobody can say if it was handled."""
    oldest = oldest_remembered(delivery)
    if oldest is None:
        return False
    sent = delivery.verified.sent
    if sent is not None and sent < oldest:
        return True
    if facts.time is None or not delivery.route.time_is_signed(delivery.verified.scheme):
        return False
    return facts.time.timestamp() < oldest


def oldest_remembered(delivery: RoutedDelivery) -> float | None:
    """Since when the ledger remembers, in seconds since 1970; None for ever."""
    keep = delivery.route.window
    return None if keep is None else delivery.now - keep / 1_000_000


def first_too_old(
    arrivals: Sequence[NewEvent], outcomes: Sequence[EventOutcome]
) -> NewEvent | None:
    """The first event of a delivery that was parked for its age."""
    pairs = zip(arrivals, outcomes, strict=True)
    return next((one for one, outcome in pairs if outcome.status is Status.TOO_OLD), None)


def explain_too_old(delivery: RoutedDelivery, arrival: NewEvent) -> str:
    """Why an event was parked, and what to do: for its sender, and for the log."""
    memory = str(timedelta(microseconds=delivery.route.window or 0)).removesuffix(", 0:00:00")
    return (
        f"{age_of(delivery, arrival)}, and the ledger remembers {memory}: it is stored and not "
        "processed, because nobody can tell whether it was handled before. To process it, raise "
        "window= of the source, `duly forget` the event and have it sent again"
    )


def age_of(delivery: RoutedDelivery, arrival: NewEvent) -> str:
    """The time that is too old: that of the signature, or that of the event."""
    oldest, sent = oldest_remembered(delivery), delivery.verified.sent
    if oldest is not None and sent is not None and sent < oldest:
        signed = delivery.verified.sent_at
        return f"it was signed at {OUT_OF_RANGE if signed is None else format_time(signed)}"
    time = arrival.event_time
    told = OUT_OF_RANGE if time is None else format_time(from_microseconds(time))
    return f"its event time is {told}"


def format_time(moment: datetime) -> str:
    """A time, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
