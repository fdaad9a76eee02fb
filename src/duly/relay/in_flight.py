"""One message in the hands of this process, from its lease to the end of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from duly.outbox.lease import LeasedMessage
    from duly.outbox.outcome import Ended


class Parcel:
    """What this process knows of a message that it leased."""

    __slots__ = ("asked", "begun", "ended", "leased", "task")

    def __init__(self, leased: LeasedMessage, asked: float) -> None:
        self.leased = leased
        # When the lease was asked for, by a clock that never jumps: it began later, or then.
        self.asked = asked
        self.begun: float | None = None
        # How it ended, once somebody has decided so: the receiver, a timeout, the end of the relay.
        self.ended: Ended | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def ran(self) -> int:
        """For how many microseconds it has been on its way."""
        return 0 if self.begun is None else int((time.monotonic() - self.begun) * 1_000_000)

    @property
    def resent(self) -> bool:
        """Whether it may have arrived before."""
        return self.leased.attempts + self.leased.rescues > 0
