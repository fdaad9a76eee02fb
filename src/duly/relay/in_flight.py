"""One message in the hands of this process, from its lease to the end of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from duly.outbox.lease import MessageSettlement

if TYPE_CHECKING:
    import asyncio

    from duly.outbox.lease import LeasedMessage
    from duly.outbox.outcome import MessageOutcome


class InFlight:
    """What this process knows of a message that it leased."""

    __slots__ = ("ended", "lease_asked_at", "leased", "started_at", "task")

    def __init__(self, leased: LeasedMessage, lease_asked_at: float) -> None:
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
        return (
            0 if self.started_at is None else int((time.monotonic() - self.started_at) * 1_000_000)
        )

    def settlement(self, ended: MessageOutcome) -> MessageSettlement:
        """The end of its lease, to be written."""
        return MessageSettlement(self.leased.lease, ended, self.elapsed, self.leased.attempts + 1)

    @property
    def may_have_arrived(self) -> bool:
        """Whether it may have arrived before."""
        return self.leased.attempts + self.leased.rescues > 0
