"""The term of a lease: how long a message is this relay's, and whether a call still fits in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.relay.settings import SLACK

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.core.host import Host
    from duly.outbox.registry import OutboxRegistry
    from duly.relay.in_flight import InFlight
    from duly.relay.settings import RelaySettings

# Seconds of its lease that a message must have left, beside its timeout, to be begun.
MARGIN = 1.0


class LeaseClock:
    """How long each lease of one relay lasts."""

    def __init__(self, length: timedelta, host: Host) -> None:
        self._host = host
        self.length = length
        self.seconds = length.total_seconds()

    def seconds_for_call(self, in_flight: InFlight) -> float:
        """How many seconds a call may take that begins now."""
        return self._seconds_left(in_flight) - self._margin

    def is_long_enough(self, in_flight: InFlight, call: float) -> bool:
        """Whether a lease is long enough for a call: another relay may have it afterwards."""
        return self._seconds_left(in_flight) > min(call + self._margin, self.seconds / 2)

    def _seconds_left(self, in_flight: InFlight) -> float:
        """How many seconds are left of a lease."""
        return in_flight.lease_asked_at + self.seconds - self._host.monotonic()

    @property
    def _margin(self) -> float:
        """Seconds that must be left of a lease when its call ends."""
        return min(MARGIN, self.seconds / 4)


def lease_clock_of(settings: RelaySettings, outgoing: OutboxRegistry, host: Host) -> LeaseClock:
    """As long as was asked for, else the longest call and some slack."""
    if settings.lease is not None:
        return LeaseClock(settings.lease, host)
    calls = [outgoing.egress.deadline, *(one.timeout for one in outgoing.transports.values())]
    return LeaseClock(max(calls) + SLACK, host)
