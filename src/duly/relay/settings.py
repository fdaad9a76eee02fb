"""The settings of a relay: how much at once, how long it waits, and what it works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import UsageError
from duly.core.host import HOST, Host
from duly.core.retry import RESCUE_BACKOFF, Backoff
from duly.core.validation import checked_count, checked_duration
from duly.service.maintenance import COUNTERS_FLUSH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.outbox.registry import OutboxRegistry
    from duly.service.wakeup import Wakeup
    from duly.stores.store import Store

# Sending is mostly waiting: enough that a few slow destinations do not hold up the others, and few
# enough for one process's sockets.
CONCURRENCY = 100
# What most receivers take from one sender.
PER_DESTINATION = 10
MOST_AT_ONCE = 1000
# Most supervisors wait so long, or longer, before they kill a process.
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
        lease: how long a message is leased; None for the longest call and some slack.
        grace: how long messages in flight may take when the relay is told to stop.
    """

    concurrency: int = CONCURRENCY
    per_destination: int = PER_DESTINATION
    lease: timedelta | None = None
    grace: timedelta = GRACE
    pauses: RelayPauses = field(default_factory=lambda: PAUSES)


def relay_settings(
    concurrency: object, per_destination: object, lease: object, grace: object
) -> RelaySettings:
    """Check the settings that a caller gave."""
    at_once = checked_count("concurrency", concurrency, most=MOST_AT_ONCE)
    each = checked_count("per_destination", per_destination, most=MOST_AT_ONCE)
    if lease is not None:
        checked_duration("lease", lease, least=SHORTEST_LEASE)
    checked_duration("grace", grace, least=timedelta(0))
    if not isinstance(grace, timedelta) or not (lease is None or isinstance(lease, timedelta)):
        raise UsageError("lease and grace must be timedeltas")
    return RelaySettings(at_once, each, lease, grace)


class RelayDependencies(NamedTuple):
    """What a relay works with. ``secrets`` are left out of recorded errors."""

    store: Store
    outgoing: OutboxRegistry
    wakeup: Wakeup
    secrets: Sequence[str]
    host: Host = HOST

    @property
    def many_writers(self) -> bool:
        """True if two transactions can write at the same time."""
        return self.store.capabilities.concurrent_writers
