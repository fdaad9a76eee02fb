"""One delivery as bytes: signed as its source signs, genuine or not, ready to be written."""

from __future__ import annotations

import base64
import hmac
import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from duly.demo.events import HUB_SOURCE, SHOP
from duly.demo.shop import key_of

if TYPE_CHECKING:
    from duly.demo.events import StormEvent

# Seconds: far outside the tolerance of Standard Webhooks.
OLD = 3600


class DeliveryKind(Enum):
    """What is delivered, and what may be answered."""

    GENUINE = "genuine"
    CHANGED = "another body under the same signed id"
    CONFLICT = "another body under the same unsigned id"
    REPLAYED = "the same body under another unsigned id"
    FORGED = "a signature of somebody else's"
    STALE = "a signature from an hour ago"


# What a delivery may be told, where it is taken at all.
TAKEN = {
    DeliveryKind.GENUINE: ("accepted", "duplicate"),
    DeliveryKind.CHANGED: ("duplicate",),
    DeliveryKind.CONFLICT: ("conflict",),
    DeliveryKind.REPLAYED: ("conflict",),
    DeliveryKind.FORGED: (),
    DeliveryKind.STALE: (),
}


class PlannedDelivery(NamedTuple):
    """One arrival to be."""

    event: StormEvent
    sort: DeliveryKind = DeliveryKind.GENUINE


class DeliveryWriter:
    """Writes deliveries as requests of HTTP."""

    def __init__(self, seed: int) -> None:
        self._key = key_of(seed, SHOP)
        # GitHub's secret is a text; its bytes are the key.
        self._hub_key = key_of(seed, HUB_SOURCE).hex().encode()

    def request(self, delivery: PlannedDelivery) -> bytes:
        """The whole request."""
        event, sort = delivery
        other = sort in (DeliveryKind.CHANGED, DeliveryKind.CONFLICT, DeliveryKind.FORGED)
        body = event.body(amount=event.amount + 1 if other else None)
        sign = self._hub if event.source == HUB_SOURCE else self._shop
        return sign(event, sort, body)

    def _shop(self, event: StormEvent, sort: DeliveryKind, body: bytes) -> bytes:
        at = int(time.time()) - (OLD if sort is DeliveryKind.STALE else 0)
        identifier = event.id.encode()
        key = b"not this one" if sort is DeliveryKind.FORGED else self._key
        mac = hmac.digest(key, b"%b.%d.%b" % (identifier, at, body), "sha256")
        return (
            b"POST /shop HTTP/1.1\r\nhost: storm\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nwebhook-id: %b\r\nwebhook-timestamp: %d\r\n"
            b"webhook-signature: v1,%b\r\n\r\n%b"
            % (len(body), identifier, at, base64.b64encode(mac), body)
        )

    def _hub(self, event: StormEvent, sort: DeliveryKind, body: bytes) -> bytes:
        identifier = event.id + ("_again" if sort is DeliveryKind.REPLAYED else "")
        key = b"not this one" if sort is DeliveryKind.FORGED else self._hub_key
        mac = hmac.digest(key, body, "sha256").hex()
        return (
            b"POST /hub HTTP/1.1\r\nhost: storm\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\nx-github-delivery: %b\r\nx-github-event: push\r\n"
            b"x-hub-signature-256: sha256=%b\r\n\r\n%b"
            % (len(body), identifier.encode(), mac.encode(), body)
        )
