"""What the sender sends next: new events, copies, retries, and what is not genuine. Seeded."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from duly.demo.deliveries import DeliveryKind, PlannedDelivery
from duly.demo.events import HUB_SOURCE, Catalog, EventKind

if TYPE_CHECKING:
    from random import Random

# Shares of the events: those of which more than one copy is sent, and those of which a forged or
# an old one is sent as well. Of the copies: those that leave at the same instant as the first.
COPIED, FORGED, STALE, AT_ONCE = 0.3, 0.01, 0.01, 0.5
# Copies beside the first, at most.
COPIES = 2
# Events that are drawn ahead: they leave in any order.
SHUFFLED = 200
# What is sent again under another name, once the first was acknowledged.
SECOND = {
    EventKind.CHANGED: [DeliveryKind.CHANGED],
    EventKind.CONFLICT: [DeliveryKind.CONFLICT, DeliveryKind.REPLAYED],
}


class Traffic:
    """Decides what to send. Time comes in as seconds.

    Args:
        catalog: the events.
        dice: whatever is chosen at random.
        later: seconds by which copies are late, at most.
    """

    def __init__(self, catalog: Catalog, dice: Random, *, later: float) -> None:
        self._catalog = catalog
        self._dice = dice
        self._later = later
        self._numbers = count()
        self._shuffled: list[int] = []
        self._ready: list[PlannedDelivery] = []
        self._planned: list[tuple[float, int, PlannedDelivery]] = []  # a heap by time
        self._plans = count()
        self.events = 0
        self.open = True

    @property
    def planned_count(self) -> int:
        """How many deliveries wait for their time."""
        return len(self._planned) + len(self._ready)

    def next(self, now: float, *, new: bool) -> PlannedDelivery | None:
        """The next delivery that is due; a new event only where one may be sent."""
        if self._planned and self._planned[0][0] <= now:
            return heappop(self._planned)[2]
        if not self._ready and new and self.open:
            self._draw(now)
        return self._ready.pop() if self._ready else None

    def plan(self, delivery: PlannedDelivery, at: float) -> None:
        """Send that one at that time, or as soon after it as possible."""
        # Numbered, so that two plans for one moment are never compared by their deliveries.
        heappush(self._planned, (at, next(self._plans), delivery))

    def seconds_of(self, delivery: PlannedDelivery, now: float) -> None:
        """The event was acknowledged: send what its kind demands afterwards."""
        for sort in SECOND.get(delivery.event.kind, []):
            self.plan(PlannedDelivery(delivery.event, sort), now + self._dice.random())

    def stop_killers(self) -> None:
        """From here on no event kills the process that handles it."""
        if self._catalog.calm_from is None:
            self._catalog.calm_from = self.events + SHUFFLED

    def close(self) -> None:
        """No new events any more; what was drawn ahead is never sent, what is planned goes now."""
        self.open = False
        self._planned = [(0.0, number, delivery) for _, number, delivery in self._planned]
        heapify(self._planned)

    def _draw(self, now: float) -> None:
        while len(self._shuffled) < SHUFFLED:
            self._shuffled.append(next(self._numbers))
        at = self._dice.randrange(len(self._shuffled))
        self._shuffled[at], self._shuffled[-1] = self._shuffled[-1], self._shuffled[at]
        event = self._catalog.event(self._shuffled.pop())
        self.events += 1
        self._ready.append(PlannedDelivery(event))
        dice = self._dice
        if dice.random() < COPIED:
            for _ in range(dice.randint(1, COPIES)):
                if dice.random() < AT_ONCE:
                    self._ready.append(PlannedDelivery(event))
                else:
                    self.plan(PlannedDelivery(event), now + dice.random() * self._later)
        if dice.random() < FORGED:  # before the genuine one: it must not take its place
            self._ready.append(PlannedDelivery(event, DeliveryKind.FORGED))
        if event.source != HUB_SOURCE and dice.random() < STALE:
            self._ready.append(PlannedDelivery(event, DeliveryKind.STALE))
