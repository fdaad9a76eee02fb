"""One message in the hands of this process, from its lease to the end of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.outbox.lease import MessageSettlement

if TYPE_CHECKING:
    import asyncio

    from duly.core.host import Host
    from duly.outbox.lease import LeasedMessage
    from duly.outbox.outcome import MessageOutcome


class InFlight:
    """What this process knows of a message that it leased."""

    __slots__ = ("_host", "ended", "lease_asked_at", "leased", "started_at", "task")

    def __init__(self, leased: LeasedMessage, lease_asked_at: float, host: Host = HOST) -> None:
        self._host = host
        self.leased = leased
        # When the lease was asked for, by a clock that never jumps: it began later, or then.
        self.lease_asked_at = lease_asked_at
        self.started_at: float | None = None
        # How it ended, once somebody has decided so: the receiver, a timeout, the end of the relay.
        self.ended: MessageOutcome | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def elapsed(self) -> int:
        """For how many microseconds it has been on its way."""
        if self.started_at is None:
            return 0
        return int((self._host.monotonic() - self.started_at) * 1_000_000)

    def settlement(self, ended: MessageOutcome) -> MessageSettlement:
        """The end of its lease, to be written."""
        return MessageSettlement(self.leased.lease, ended, self.elapsed, self.leased.attempts + 1)

    @property
    def may_have_arrived(self) -> bool:
        """Whether it may have arrived before."""
        return self.leased.attempts + self.leased.rescues > 0
