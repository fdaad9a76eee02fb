"""The term of a lease: how long a message is this relay's, and whether a call still fits in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from duly.relay.settings import SLACK

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.outbox.registry import Outgoing
    from duly.relay.in_flight import Parcel
    from duly.relay.settings import RelaySettings

# Seconds of its lease that a message must have left, beside its timeout, to be begun.
MARGIN = 1.0


class Term:
    """How long each lease of one relay lasts."""

    def __init__(self, length: timedelta) -> None:
        self.length = length
        self.seconds = length.total_seconds()

    def left_for_call(self, parcel: Parcel) -> float:
        """How many seconds a call may take that begins now."""
        return self._left_of(parcel) - self._margin

    def lasts(self, parcel: Parcel, call: float) -> bool:
        """Whether a lease is long enough for a call: another relay may have it afterwards."""
        return self._left_of(parcel) > min(call + self._margin, self.seconds / 2)

    def _left_of(self, parcel: Parcel) -> float:
        """How many seconds are left of a lease."""
        return parcel.asked + self.seconds - time.monotonic()

    @property
    def _margin(self) -> float:
        """Seconds that must be left of a lease when its call ends."""
        return min(MARGIN, self.seconds / 4)


def term_of(settings: RelaySettings, outgoing: Outgoing) -> Term:
    """As long as was asked for, else the longest call and some slack."""
    if settings.lease is not None:
        return Term(settings.lease)
    calls = [outgoing.egress.deadline, *(one.timeout for one in outgoing.transports.values())]
    return Term(max(calls) + SLACK)
