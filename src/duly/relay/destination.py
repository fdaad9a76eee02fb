"""What a relay knows of each destination, and how it leaves one alone that keeps failing.

A destination that is down must cost neither the others their turn nor its own messages all their
attempts. After a few failures in a row it is closed for a while. Then one message goes first, and
the others follow if it arrives. A destination that asks for a pause has it to its end: an answer to
a message that was in flight before shows that the destination is there, not that it wants more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.host import HOST
from duly.outbox.lease import DestinationDemand
from duly.relay.in_flight import InFlight
from duly.relay.settings import CLOSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.core.host import Host
    from duly.core.retry import Backoff
    from duly.outbox.lease import LeasedMessage
    from duly.outbox.outcome import MessageOutcome
    from duly.outbox.registry import Transport
    from duly.relay.settings import RelaySettings

# Failures in a row after which a destination is closed.
UNHEALTHY_AFTER = 5
NEVER = float("-inf")
KEEPS_FAILING, ASKED = "keeps failing", "asked for a pause (Retry-After)"
# Messages leased for each that may be in flight, so that none waits for the database.
AHEAD = 3


class Destination:
    """The messages of one destination, and its circuit breaker."""

    def __init__(self, name: str, most: int, host: Host = HOST, closed: Backoff = CLOSED) -> None:
        self.name = name
        self._host = host
        self._backoff = closed
        self._most = most
        self.waiting: deque[InFlight] = deque()
        self.running: set[InFlight] = set()
        # Failures in a row, closings since the last answer, and when the last failure was.
        self._failures = 0
        self._closings = 0
        self._failed_at = NEVER
        self._closed_until = 0.0
        # The end of the pause that the destination itself asked for.
        self._asked_until = 0.0
        # Why it is closed, for the log.
        self.reason = KEEPS_FAILING
        # True while the next message decides whether it opens.
        self._probing = False
        # Where the last batch ended, and whether there may be more behind it.
        self._since: int | None = None
        self._last: str | None = None
        self.more = False
        # Abandoned calls whose threads have not come back.
        self.hung = 0

    @property
    def closed(self) -> bool:
        """True while nothing may be sent there."""
        return self._host.monotonic() < self._closed_until

    @property
    def reopens_in(self) -> float:
        """Seconds until it may be tried again."""
        return max(self._closed_until - self._host.monotonic(), 0.0)

    @property
    def leased_count(self) -> int:
        """How many of its messages this relay has leased."""
        return len(self.waiting) + len(self.running)

    @property
    def forgettable(self) -> bool:
        """True if nothing is lost when the relay forgets this destination."""
        recent = self._host.monotonic() - self._failed_at < self._backoff.cap.total_seconds()
        return not self.leased_count and not self.more and not recent and not self.closed

    @property
    def _limit(self) -> int:
        return 1 if self._probing else max(self._most - self.hung, 1)

    @property
    def room(self) -> int:
        """How many more messages can be leased."""
        if self.closed:
            return 0
        return max((1 if self._probing else AHEAD * self._most) - self.leased_count, 0)

    @property
    def needs_fetch(self) -> bool:
        """True if more should be leased: a batch is worth its trip, and nothing may run dry."""
        return self.more and self.room > 0 and len(self.waiting) <= self._limit // 2

    def want(self, most: int) -> DestinationDemand:
        """Return what to ask the database for."""
        return DestinationDemand(self.name, min(self.room, most), self._since, self._last)

    def restart_scan(self) -> None:
        """Scan from the start: a message committed late may stand before the last batch."""
        self._since = self._last = None
        self.more = True

    def record_batch(self, asked: int, leases: list[LeasedMessage]) -> None:
        """Remember where a batch ended."""
        self.more = len(leases) >= asked
        if leases:
            self._since, self._last = leases[-1].run_at, leases[-1].id

    def pop_next(self) -> InFlight | None:
        """Remove and return the next message to send; None if none may go."""
        if not self.waiting or self.closed or len(self.running) >= self._limit:
            return None
        return self.waiting.popleft()

    def record_result(self, ended: MessageOutcome) -> bool:
        """Record the outcome of an attempt; return True if it closed the destination."""
        if ended.answered:
            self._failures = self._closings = 0
            self._closed_until = self._asked_until
            self._probing = self.closed
        if not ended.unhealthy:
            return False
        self._failed_at = self._host.monotonic()
        if self.closed:  # it was in flight before that: only its Retry-After is new
            self._apply_retry_after(ended)
            return False
        self._record_failure()
        self._apply_retry_after(ended)
        asked = ended.pause is not None and self._failures < UNHEALTHY_AFTER
        self.reason = ASKED if asked else KEEPS_FAILING
        return self.closed

    def _apply_retry_after(self, ended: MessageOutcome) -> None:
        """Apply the destination's Retry-After."""
        # The message itself waits that long; the destination is tried again sooner.
        if pause := min(ended.pause or 0, self._backoff.cap // MICROSECOND):
            until = self._host.monotonic() + pause / 1_000_000
            self._asked_until = max(self._asked_until, until)
            self._close_until(self._asked_until)

    def _record_failure(self) -> None:
        """Count a failure, and close the destination after too many."""
        self._failures += 1
        if self._probing or self._failures >= UNHEALTHY_AFTER:
            self._closings += 1
            draw = 0.5 + self._host.random.random() / 2
            pause = self._backoff.delay(self._closings, draw)
            self._close_until(self._host.monotonic() + pause / 1_000_000)

    def _close_until(self, moment: float) -> None:
        """Close it until then, unless it is closed for longer already."""
        self._closed_until = max(self._closed_until, moment)
        self._probing = True


class Destinations:
    """All destinations of a relay, and how many messages they have."""

    def __init__(
        self, transports: Mapping[str, Transport], settings: RelaySettings, host: Host
    ) -> None:
        self._host = host
        self._transports = transports
        self._settings = settings
        self.by_name: dict[str, Destination] = {}
        # Those with messages waiting; how many wait, and how many are in flight.
        self._with_waiting: dict[str, Destination] = {}
        self._waiting = 0
        self._sending = 0

    @property
    def leased_count(self) -> int:
        """How many messages this relay has leased."""
        return self._waiting + self._sending

    @property
    def room(self) -> int:
        """How many more messages can be leased."""
        return AHEAD * self._settings.concurrency - self.leased_count

    @property
    def free(self) -> int:
        """How many more messages can be in flight."""
        return self._settings.concurrency - self._sending

    def get_or_create(self, name: str) -> Destination:
        """Return the destination of this name."""
        found = self.by_name.get(name)
        if found is None:
            transport = self._transports.get(name)
            most = self._settings.per_destination if transport is None else transport.concurrency
            found = self.by_name[name] = Destination(
                name, most, self._host, self._settings.pauses.closed
            )
        return found

    def forget_idle(self) -> None:
        """Forget idle destinations, so that they do not fill the memory."""
        idle = [name for name, one in self.by_name.items() if one.forgettable]
        for name in idle:
            del self.by_name[name]

    def wants(self) -> list[DestinationDemand]:
        """Return what to ask the database for."""
        left = self.room
        needy = [one for one in self.by_name.values() if one.needs_fetch]
        self._host.random.shuffle(needy)
        wants: list[DestinationDemand] = []
        for place, destination in enumerate(needy):
            share = -(-left // (len(needy) - place))  # an even share of what is left, rounded up
            want = destination.want(share)
            if want.room > 0:
                wants.append(want)
                left -= want.room
        return wants

    def record_batch(
        self, wants: Sequence[DestinationDemand], leases: Sequence[LeasedMessage], asked_at: float
    ) -> None:
        """Add leased messages, each to its destination, until they may go."""
        found: dict[str, list[LeasedMessage]] = {}
        for leased in leases:
            found.setdefault(leased.destination, []).append(leased)
        for want in wants:
            destination, mine = self.by_name[want.destination], found.get(want.destination, [])
            destination.record_batch(want.room, mine)
            if mine:
                destination.waiting.extend(
                    InFlight(leased, asked_at, self._host) for leased in mine
                )
                self._with_waiting[destination.name] = destination
        self._waiting += len(leases)

    def with_waiting(self) -> list[Destination]:
        """Return the destinations with messages waiting."""
        return list(self._with_waiting.values())

    def pop_next(self, destination: Destination) -> InFlight | None:
        """Remove and return the next message to send there; None if none may go."""
        in_flight = destination.pop_next()
        if in_flight is not None:
            self._count_popped(destination)
        return in_flight

    def pop_all(self, destination: Destination) -> Iterator[InFlight]:
        """Remove and yield every message that waits there."""
        while destination.waiting:
            in_flight = destination.waiting.popleft()
            self._count_popped(destination)
            yield in_flight

    def _count_popped(self, destination: Destination) -> None:
        """Count one waiting message less."""
        self._waiting -= 1
        if not destination.waiting:
            self._with_waiting.pop(destination.name, None)

    def mark_sending(self, destination: Destination, in_flight: InFlight) -> None:
        """Count a message as in flight."""
        destination.running.add(in_flight)
        self._sending += 1

    def mark_ended(self, destination: Destination, in_flight: InFlight) -> None:
        """Count a message as no longer in flight."""
        if in_flight in destination.running:
            destination.running.discard(in_flight)
            self._sending -= 1

    def list_running(self) -> list[InFlight]:
        """Return every message in flight."""
        return [message for one in self.by_name.values() for message in one.running]
