"""One message that this relay has leased, and how long it still has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.outbox.lease import MessageSettlement
from duly.relay.settings import SLACK

if TYPE_CHECKING:
    import asyncio
    from datetime import timedelta

    from duly.core.host import Host
    from duly.outbox.lease import LeasedMessage
    from duly.outbox.outcome import MessageOutcome
    from duly.outbox.registry import OutboxRegistry
    from duly.relay.settings import RelaySettings

# Seconds that a lease must have left, beside the timeout of the call, for the call to start.
MARGIN = 1.0


class InFlight:
    """A leased message in this process."""

    __slots__ = ("_host", "ended", "lease_asked_at", "leased", "started_at", "task")

    def __init__(self, leased: LeasedMessage, lease_asked_at: float, host: Host = HOST) -> None:
        self._host = host
        self.leased = leased
        # When the lease was asked for, on the monotonic clock: it began then or later.
        self.lease_asked_at = lease_asked_at
        self.started_at: float | None = None
        # The outcome, decided once: by the receiver, a timeout, or the end of the relay.
        self.ended: MessageOutcome | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def elapsed(self) -> int:
        """Microseconds since the attempt began."""
        if self.started_at is None:
            return 0
        return int((self._host.monotonic() - self.started_at) * 1_000_000)

    def settlement(self, ended: MessageOutcome) -> MessageSettlement:
        """Return the settlement of its lease."""
        return MessageSettlement(self.leased.lease, ended, self.elapsed, self.leased.attempts + 1)

    @property
    def may_have_arrived(self) -> bool:
        """True if an earlier attempt may have arrived."""
        return self.leased.attempts + self.leased.rescues > 0


class LeaseClock:
    """How long the leases of one relay last."""

    def __init__(self, length: timedelta, host: Host) -> None:
        self._host = host
        self.length = length
        self.seconds = length.total_seconds()

    def seconds_for_call(self, in_flight: InFlight) -> float:
        """Seconds that a call may take that starts now."""
        return self._seconds_left(in_flight) - self._margin

    def is_long_enough(self, in_flight: InFlight, call: float) -> bool:
        """True if the lease outlasts a call of so many seconds."""
        return self._seconds_left(in_flight) > min(call + self._margin, self.seconds / 2)

    def _seconds_left(self, in_flight: InFlight) -> float:
        """Seconds left of a lease."""
        return in_flight.lease_asked_at + self.seconds - self._host.monotonic()

    @property
    def _margin(self) -> float:
        """Seconds that must be left of a lease when the call ends."""
        return min(MARGIN, self.seconds / 4)


def lease_clock_of(settings: RelaySettings, outgoing: OutboxRegistry, host: Host) -> LeaseClock:
    """Return the configured lease, or the longest call and some slack."""
    if settings.lease is not None:
        return LeaseClock(settings.lease, host)
    calls = [outgoing.egress.deadline, *(one.timeout for one in outgoing.transports.values())]
    return LeaseClock(max(calls) + SLACK, host)
