"""What a relay has in its hands, lane by lane: messages that wait, and messages on their way."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from duly.relay.destination import AHEAD, Lane
from duly.relay.in_flight import Parcel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.outbox.lease import LeasedMessage, Want
    from duly.outbox.registry import Transport
    from duly.relay.settings import RelaySettings


class Depot:
    """All lanes of a relay, and how much is in them."""

    def __init__(self, transports: Mapping[str, Transport], settings: RelaySettings) -> None:
        self._transports = transports
        self._settings = settings
        self.lanes: dict[str, Lane] = {}
        # Those of them that have something waiting here; and how much waits, and is on its way.
        self._laden: dict[str, Lane] = {}
        self._waiting = 0
        self._on_the_way = 0

    @property
    def held(self) -> int:
        """How many messages this relay has."""
        return self._waiting + self._on_the_way

    @property
    def room(self) -> int:
        """How many more can be taken."""
        return AHEAD * self._settings.concurrency - self.held

    @property
    def free(self) -> int:
        """How many more can be on their way."""
        return self._settings.concurrency - self._on_the_way

    def lane(self, destination: str) -> Lane:
        """The lane of a destination, a new one where there was none."""
        lane = self.lanes.get(destination)
        if lane is None:
            transport = self._transports.get(destination)
            most = self._settings.per_destination if transport is None else transport.concurrency
            lane = self.lanes[destination] = Lane(destination, most)
        return lane

    def forget_idle_lanes(self) -> None:
        """What nobody sends to any more must not fill the memory."""
        idle = [name for name, lane in self.lanes.items() if lane.forgettable]
        for name in idle:
            del self.lanes[name]

    def wants(self) -> list[Want]:
        """What to ask the database for."""
        left = self.room
        lanes = [lane for lane in self.lanes.values() if lane.hungry]
        random.shuffle(lanes)
        wants: list[Want] = []
        for place, lane in enumerate(lanes):
            share = -(-left // (len(lanes) - place))  # an even share of what is left, rounded up
            want = lane.want(share)
            if want.room > 0:
                wants.append(want)
                left -= want.room
        return wants

    def took(self, wants: Sequence[Want], leases: Sequence[LeasedMessage], asked: float) -> None:
        """Messages were leased: each waits in its lane until it may go."""
        found: dict[str, list[LeasedMessage]] = {}
        for leased in leases:
            found.setdefault(leased.destination, []).append(leased)
        for want in wants:
            lane, mine = self.lanes[want.destination], found.get(want.destination, [])
            lane.took(want.room, mine)
            if mine:
                lane.waiting.extend(Parcel(leased, asked) for leased in mine)
                self._laden[lane.destination] = lane
        self._waiting += len(leases)

    def laden(self) -> list[Lane]:
        """The lanes in which something waits."""
        return list(self._laden.values())

    def next(self, lane: Lane) -> Parcel | None:
        """The next message to send there now, which waits no more; None where none may go."""
        parcel = lane.next()
        if parcel is not None:
            self._unloaded(lane)
        return parcel

    def emptied(self, lane: Lane) -> Iterator[Parcel]:
        """Everything that waits there, and waits no more."""
        while lane.waiting:
            parcel = lane.waiting.popleft()
            self._unloaded(lane)
            yield parcel

    def _unloaded(self, lane: Lane) -> None:
        """One less waits there."""
        self._waiting -= 1
        if not lane.waiting:
            self._laden.pop(lane.destination, None)

    def went(self, lane: Lane, parcel: Parcel) -> None:
        """It is on its way."""
        lane.running.add(parcel)
        self._on_the_way += 1

    def left(self, lane: Lane, parcel: Parcel) -> None:
        """It is not on its way any more."""
        if parcel in lane.running:
            lane.running.discard(parcel)
            self._on_the_way -= 1

    def running(self) -> list[Parcel]:
        """Everything that is on its way."""
        return [parcel for lane in self.lanes.values() for parcel in lane.running]
