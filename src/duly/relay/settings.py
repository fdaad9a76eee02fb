"""What a relay was told: how much at once, and how long it waits for what."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from duly.core.errors import UsageError
from duly.core.retry import RESCUE_BACKOFF, Backoff
from duly.core.validation import checked_count, checked_duration
from duly.service.maintenance import COUNTERS_FLUSH

# Sending is mostly waiting: enough that a few slow destinations do not hold up the others, and few
# enough for one process's sockets.
CONCURRENCY = 100
# What most receivers take from one sender without a complaint.
PER_DESTINATION = 10
MOST_AT_ONCE = 1000
# Most supervisors wait so long, or longer, before they kill.
GRACE = timedelta(seconds=25)
# Beside the time of the call itself: for the wait before it, and for its end to be written.
SLACK = timedelta(seconds=30)
SHORTEST_LEASE = timedelta(milliseconds=100)


# How long a destination that keeps failing is left alone.
CLOSED = Backoff(first=timedelta(seconds=2), factor=2, cap=timedelta(minutes=5))


@dataclass(frozen=True, slots=True)
class RelayPauses:
    """How long a relay waits between two looks, in seconds.

    Args:
        soonest: for messages, where nothing wakes it: at first.
        latest: the same while it is idle, and after an error.
        heartbeat: between two heartbeats.
        counters: until counters are written.
        closed: how long a destination that keeps failing is left alone.
        rescue: how long a rescued message waits before it is sent again.
    """

    soonest: float = 0.02
    latest: float = 0.5
    heartbeat: float = 15.0
    counters: float = COUNTERS_FLUSH
    closed: Backoff = CLOSED
    rescue: Backoff = RESCUE_BACKOFF


PAUSES = RelayPauses()


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """How one relay works.

    Args:
        concurrency: how many messages it sends at the same time.
        per_destination: how many of them to one destination.
        lease: how long a message is its own; None for the longest call and some slack.
        grace: how long messages on their way may take to end when it is told to.
    """

    concurrency: int = CONCURRENCY
    per_destination: int = PER_DESTINATION
    lease: timedelta | None = None
    grace: timedelta = GRACE
    pauses: RelayPauses = field(default_factory=lambda: PAUSES)


def relay_settings(
    concurrency: object, per_destination: object, lease: object, grace: object
) -> RelaySettings:
    """Check what a caller asked for."""
    at_once = checked_count("concurrency", concurrency, most=MOST_AT_ONCE)
    each = checked_count("per_destination", per_destination, most=MOST_AT_ONCE)
    if lease is not None:
        checked_duration("lease", lease, least=SHORTEST_LEASE)
    checked_duration("grace", grace, least=timedelta(0))
    if not isinstance(grace, timedelta) or not (lease is None or isinstance(lease, timedelta)):
        raise UsageError("lease and grace must be timedeltas")
    return RelaySettings(at_once, each, lease, grace)
