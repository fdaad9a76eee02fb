"""What a relay has in its hands, lane by lane: messages that wait, and messages on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.relay.destination import AHEAD, Destination
from duly.relay.in_flight import InFlight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.core.host import Host
    from duly.outbox.lease import DestinationDemand, LeasedMessage
    from duly.outbox.registry import Transport
    from duly.relay.settings import RelaySettings


class Destinations:
    """All lanes of a relay, and how much is in them."""

    def __init__(
        self, transports: Mapping[str, Transport], settings: RelaySettings, host: Host
    ) -> None:
        self._host = host
        self._transports = transports
        self._settings = settings
        self.by_name: dict[str, Destination] = {}
        # Those of them that have something waiting here; and how much waits, and is on its way.
        self._with_waiting: dict[str, Destination] = {}
        self._waiting = 0
        self._sending = 0

    @property
    def leased_count(self) -> int:
        """How many messages this relay has."""
        return self._waiting + self._sending

    @property
    def room(self) -> int:
        """How many more can be taken."""
        return AHEAD * self._settings.concurrency - self.leased_count

    @property
    def free(self) -> int:
        """How many more can be on their way."""
        return self._settings.concurrency - self._sending

    def get_or_create(self, name: str) -> Destination:
        """The lane of a destination, a new one where there was none."""
        lane = self.by_name.get(name)
        if lane is None:
            transport = self._transports.get(name)
            most = self._settings.per_destination if transport is None else transport.concurrency
            lane = self.by_name[name] = Destination(
                name, most, self._host, self._settings.pauses.closed
            )
        return lane

    def forget_idle(self) -> None:
        """What nobody sends to any more must not fill the memory."""
        idle = [name for name, lane in self.by_name.items() if lane.forgettable]
        for name in idle:
            del self.by_name[name]

    def wants(self) -> list[DestinationDemand]:
        """What to ask the database for."""
        left = self.room
        lanes = [lane for lane in self.by_name.values() if lane.needs_fetch]
        self._host.random.shuffle(lanes)
        wants: list[DestinationDemand] = []
        for place, lane in enumerate(lanes):
            share = -(-left // (len(lanes) - place))  # an even share of what is left, rounded up
            want = lane.want(share)
            if want.room > 0:
                wants.append(want)
                left -= want.room
        return wants

    def record_batch(
        self, wants: Sequence[DestinationDemand], leases: Sequence[LeasedMessage], asked_at: float
    ) -> None:
        """Messages were leased: each waits in its lane until it may go."""
        found: dict[str, list[LeasedMessage]] = {}
        for leased in leases:
            found.setdefault(leased.destination, []).append(leased)
        for want in wants:
            lane, mine = self.by_name[want.destination], found.get(want.destination, [])
            lane.record_batch(want.room, mine)
            if mine:
                lane.waiting.extend(InFlight(leased, asked_at, self._host) for leased in mine)
                self._with_waiting[lane.name] = lane
        self._waiting += len(leases)

    def with_waiting(self) -> list[Destination]:
        """The lanes in which something waits."""
        return list(self._with_waiting.values())

    def pop_next(self, destination: Destination) -> InFlight | None:
        """The next message to send there now, which waits no more; None where none may go."""
        parcel = destination.pop_next()
        if parcel is not None:
            self._count_popped(destination)
        return parcel

    def pop_all(self, destination: Destination) -> Iterator[InFlight]:
        """Everything that waits there, and waits no more."""
        while destination.waiting:
            parcel = destination.waiting.popleft()
            self._count_popped(destination)
            yield parcel

    def _count_popped(self, destination: Destination) -> None:
        """One less waits there."""
        self._waiting -= 1
        if not destination.waiting:
            self._with_waiting.pop(destination.name, None)

    def mark_sending(self, destination: Destination, in_flight: InFlight) -> None:
        """It is on its way."""
        destination.running.add(in_flight)
        self._sending += 1

    def mark_ended(self, destination: Destination, in_flight: InFlight) -> None:
        """It is not on its way any more."""
        if in_flight in destination.running:
            destination.running.discard(in_flight)
            self._sending -= 1

    def list_running(self) -> list[InFlight]:
        """Everything that is on its way."""
        return [parcel for lane in self.by_name.values() for parcel in lane.running]
