"""Lanes: what a relay knows of each destination, and how it leaves one alone that keeps failing.

A destination that is down must cost neither the others their turn nor its own messages all their
attempts. After a few failures in a row its lane is closed for a while; then one message goes
first, and the others follow if it arrives. One that asks for a pause has it to its end: an answer
to what was on its way before says that the destination is there, not that it wants more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.host import HOST
from duly.outbox.lease import DestinationDemand
from duly.relay.settings import CLOSED

if TYPE_CHECKING:
    from duly.core.host import Host
    from duly.core.retry import Backoff
    from duly.outbox.lease import LeasedMessage
    from duly.outbox.outcome import MessageOutcome
    from duly.relay.in_flight import InFlight

# Failures in a row that are no accident.
UNHEALTHY_AFTER = 5
NEVER = float("-inf")
KEEPS_FAILING, ASKED = "keeps failing", "asked for a pause (Retry-After)"
# Messages that are held for each that may be on its way, so that none waits for the database.
AHEAD = 3


class Destination:
    """One destination."""

    def __init__(self, name: str, most: int, host: Host = HOST, closed: Backoff = CLOSED) -> None:
        self.name = name
        self._host = host
        self._backoff = closed
        self._most = most
        self.waiting: deque[InFlight] = deque()
        self.running: set[InFlight] = set()
        # Failures in a row, how often the lane was closed since the last answer, and the last time.
        self._failures = 0
        self._closings = 0
        self._failed_at = NEVER
        self._closed_until = 0.0
        # The end of the pause that the destination itself asked for.
        self._asked_until = 0.0
        # What the lane was closed for, as a person is told it.
        self.reason = KEEPS_FAILING
        # Whether the next message decides if the lane opens.
        self._probing = False
        # Where the last batch ended, and whether there may be more behind it.
        self._since: int | None = None
        self._last: str | None = None
        self.more = False
        # Calls that were given up and still keep their place.
        self.hung = 0

    @property
    def closed(self) -> bool:
        """Whether nothing may be sent there now."""
        return self._host.monotonic() < self._closed_until

    @property
    def reopens_in(self) -> float:
        """Seconds until it may be tried again."""
        return max(self._closed_until - self._host.monotonic(), 0.0)

    @property
    def leased_count(self) -> int:
        """How many messages of it this relay has."""
        return len(self.waiting) + len(self.running)

    @property
    def forgettable(self) -> bool:
        """Whether nothing is lost if the relay forgets this lane."""
        recent = self._host.monotonic() - self._failed_at < self._backoff.cap.total_seconds()
        return not self.leased_count and not self.more and not recent and not self.closed

    @property
    def _limit(self) -> int:
        return 1 if self._probing else max(self._most - self.hung, 1)

    @property
    def room(self) -> int:
        """How many more can be taken."""
        if self.closed:
            return 0
        return max((1 if self._probing else AHEAD * self._most) - self.leased_count, 0)

    @property
    def needs_fetch(self) -> bool:
        """Whether more should be taken: a batch is worth its trip, and nothing may run dry."""
        return self.more and self.room > 0 and len(self.waiting) <= self._limit // 2

    def want(self, most: int) -> DestinationDemand:
        """What to ask the database for."""
        return DestinationDemand(self.name, min(self.room, most), self._since, self._last)

    def restart_scan(self) -> None:
        """Look from the beginning again: what is committed late may stand before the last batch."""
        self._since = self._last = None
        self.more = True

    def record_batch(self, asked: int, leases: list[LeasedMessage]) -> None:
        """Remember where a batch ended."""
        self.more = len(leases) >= asked
        if leases:
            self._since, self._last = leases[-1].run_at, leases[-1].id

    def pop_next(self) -> InFlight | None:
        """The next message to send now, removed from those that wait; None where none may go."""
        if not self.waiting or self.closed or len(self.running) >= self._limit:
            return None
        return self.waiting.popleft()

    def record_result(self, ended: MessageOutcome) -> bool:
        """Learn from the end of an attempt; whether the lane was closed by it."""
        if ended.answered:
            self._failures = self._closings = 0
            self._closed_until = self._asked_until
            self._probing = self.closed
        if not ended.unhealthy:
            return False
        self._failed_at = self._host.monotonic()
        if self.closed:  # it was on its way before that: only a wish of its own is new
            self._apply_retry_after(ended)
            return False
        self._record_failure()
        self._apply_retry_after(ended)
        asked = ended.pause is not None and self._failures < UNHEALTHY_AFTER
        self.reason = ASKED if asked else KEEPS_FAILING
        return self.closed

    def _apply_retry_after(self, ended: MessageOutcome) -> None:
        """Leave the destination alone for as long as it asks, whatever is known of it."""
        # A message waits as long as it was asked to; the others are tried before tomorrow.
        if pause := min(ended.pause or 0, self._backoff.cap // MICROSECOND):
            until = self._host.monotonic() + pause / 1_000_000
            self._asked_until = max(self._asked_until, until)
            self._close_until(self._asked_until)

    def _record_failure(self) -> None:
        """Count one more, and leave the destination alone where that is no accident."""
        self._failures += 1
        if self._probing or self._failures >= UNHEALTHY_AFTER:
            self._closings += 1
            draw = 0.5 + self._host.random.random() / 2
            pause = self._backoff.delay(self._closings, draw)
            self._close_until(self._host.monotonic() + pause / 1_000_000)

    def _close_until(self, moment: float) -> None:
        """Close it until then, or for as long as it is closed already."""
        self._closed_until = max(self._closed_until, moment)
        self._probing = True
