"""What the sender sends next, and as which bytes: events, copies, retries, forgeries. Seeded."""

from __future__ import annotations

import base64
import hmac
import time
from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from duly.demo.events import HUB_SOURCE, SHOP, Catalog, EventKind
from duly.demo.shop import key_of

if TYPE_CHECKING:
    from random import Random

    from duly.demo.events import StormEvent

# Seconds: far outside the tolerance of Standard Webhooks.
STALE_AGE = 3600
# Shares of the events: those with more than one copy, those with a forged or a stale copy as well.
# Of the copies: those that leave at the same instant as the first.
COPIED, FORGED, STALE, AT_ONCE = 0.3, 0.01, 0.01, 0.5
# Copies beside the first, at most.
COPIES = 2
# Events that are drawn ahead, and leave in random order.
SHUFFLED = 200


class DeliveryKind(Enum):
    """What is genuine or wrong about a delivery."""

    GENUINE = "genuine"
    CHANGED = "another body under the same signed id"
    CONFLICT = "another body under the same unsigned id"
    REPLAYED = "the same body under another unsigned id"
    FORGED = "a signature with another key"
    STALE = "a signature from an hour ago"


# Which statuses a delivery may be answered with, where it is accepted at all.
ALLOWED_STATUSES = {
    DeliveryKind.GENUINE: ("accepted", "duplicate"),
    DeliveryKind.CHANGED: ("duplicate",),
    DeliveryKind.CONFLICT: ("conflict",),
    DeliveryKind.REPLAYED: ("conflict",),
    DeliveryKind.FORGED: (),
    DeliveryKind.STALE: (),
}


# What is sent once the genuine delivery was acknowledged.
FOLLOW_UPS = {
    EventKind.CHANGED: [DeliveryKind.CHANGED],
    EventKind.CONFLICT: [DeliveryKind.CONFLICT, DeliveryKind.REPLAYED],
}


class PlannedDelivery(NamedTuple):
    """An event to deliver, and how."""

    event: StormEvent
    kind: DeliveryKind = DeliveryKind.GENUINE


class DeliveryWriter:
    """Writes signed deliveries as HTTP requests."""

    def __init__(self, seed: int) -> None:
        self._key = key_of(seed, SHOP)
        # GitHub's secret is a text; its bytes are the key.
        self._hub_key = key_of(seed, HUB_SOURCE).hex().encode()

    def request(self, delivery: PlannedDelivery) -> bytes:
        """Return the whole request."""
        event, kind = delivery
        changed = kind in (DeliveryKind.CHANGED, DeliveryKind.CONFLICT, DeliveryKind.FORGED)
        body = event.body(amount=event.amount + 1 if changed else None)
        sign = self._hub if event.source == HUB_SOURCE else self._shop
        return sign(event, kind, body)

    def _shop(self, event: StormEvent, kind: DeliveryKind, body: bytes) -> bytes:
        at = int(time.time()) - (STALE_AGE if kind is DeliveryKind.STALE else 0)
        identifier = event.id.encode()
        key = b"not this one" if kind is DeliveryKind.FORGED else self._key
        mac = hmac.digest(key, b"%b.%d.%b" % (identifier, at, body), "sha256")
        return (
            b"POST /shop HTTP/1.1\r\nhost: storm\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nwebhook-id: %b\r\nwebhook-timestamp: %d\r\n"
            b"webhook-signature: v1,%b\r\n\r\n%b"
            % (len(body), identifier, at, base64.b64encode(mac), body)
        )

    def _hub(self, event: StormEvent, kind: DeliveryKind, body: bytes) -> bytes:
        identifier = event.id + ("_again" if kind is DeliveryKind.REPLAYED else "")
        key = b"not this one" if kind is DeliveryKind.FORGED else self._hub_key
        mac = hmac.digest(key, body, "sha256").hex()
        return (
            b"POST /hub HTTP/1.1\r\nhost: storm\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nx-github-delivery: %b\r\nx-github-event: push\r\n"
            b"x-hub-signature-256: sha256=%b\r\n\r\n%b"
            % (len(body), identifier.encode(), mac.encode(), body)
        )


class Traffic:
    """Decides what to send. Time comes in as seconds.

    Args:
        catalog: the events.
        dice: the source of randomness.
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
        """Return how many deliveries wait for their time."""
        return len(self._planned) + len(self._ready)

    def next(self, now: float, *, new: bool) -> PlannedDelivery | None:
        """Return the next delivery that is due; a new event only if ``new``."""
        if self._planned and self._planned[0][0] <= now:
            return heappop(self._planned)[2]
        if not self._ready and new and self.open:
            self._draw(now)
        return self._ready.pop() if self._ready else None

    def plan(self, delivery: PlannedDelivery, at: float) -> None:
        """Plan a delivery for a time, or as soon after it as possible."""
        # Numbered, so that two plans for one moment are never compared by their deliveries.
        heappush(self._planned, (at, next(self._plans), delivery))

    def plan_follow_ups(self, delivery: PlannedDelivery, now: float) -> None:
        """Plan what the kind of an event demands once it was acknowledged."""
        for kind in FOLLOW_UPS.get(delivery.event.kind, []):
            self.plan(PlannedDelivery(delivery.event, kind), now + self._dice.random())

    def stop_killers(self) -> None:
        """Draw no more events that kill the process that handles them."""
        if self._catalog.calm_from is None:
            self._catalog.calm_from = self.events + SHUFFLED

    def close(self) -> None:
        """Draw no new events; drop those drawn ahead, and let planned deliveries go now."""
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
        if dice.random() < FORGED:  # it leaves before the genuine one, and must not take its place
            self._ready.append(PlannedDelivery(event, DeliveryKind.FORGED))
        if event.source != HUB_SOURCE and dice.random() < STALE:
            self._ready.append(PlannedDelivery(event, DeliveryKind.STALE))
