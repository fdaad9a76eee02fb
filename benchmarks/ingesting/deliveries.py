"""The deliveries of a run: genuine, signed before the clock starts, no two alike."""

from __future__ import annotations

import base64
import hmac
import json
import os
import time

SOURCE = "standard-webhooks"
TYPE = "invoice.paid"
KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
# The lines of an invoice in each size of body: about 350 bytes, 2 KB, and what the name says.
SIZES = {"small": 0, "usual": 8, "16KB": 80, "64KB": 324, "256KB": 1300}
# So much of them is built at most: they are all in memory before the clock starts.
MOST_BYTES = 200_000_000
PLACE = "place-of-the-id"


def requests(count: int, size: str, types: int = 0) -> list[tuple[bytes, bytes]]:
    """As many ids, each with its request, ready to be written to a connection as it is.

    They are all of one type, or of so many types in turn.
    """
    names = [f"{TYPE}.{number}" for number in range(types)] or [TYPE]
    bodies = [body_around(size, name) for name in names]
    count = min(count, MOST_BYTES // sum(map(len, bodies[0])))
    head, stamp, run = head_of(), str(int(time.time())).encode(), os.urandom(8).hex()
    built = []
    for number in range(count):
        identifier = f"msg_{run}{number:08x}".encode()
        before, after = bodies[number % len(bodies)]
        body = before + identifier + after
        signed = hmac.digest(KEY, b"%b.%b.%b" % (identifier, stamp, body), "sha256")
        values = (identifier, stamp, base64.b64encode(signed), len(body), body)
        built.append((identifier, head % values))
    return built


def head_of() -> bytes:
    """What arrives with a delivery behind a proxy, with places for what differs."""
    lines = [
        f"POST /{SOURCE} HTTP/1.1",
        "Host: shop.example",
        "User-Agent: Sender/1.0 (+https://sender.example/webhooks)",
        "Accept: */*",
        "Content-Type: application/json; charset=utf-8",
        "X-Forwarded-For: 203.0.113.7",
        "X-Forwarded-Proto: https",
        "Webhook-Id: %b",
        "Webhook-Timestamp: %b",
        "Webhook-Signature: v1,%b",
        "Content-Length: %d",
        "",
        "%b",
    ]
    return "\r\n".join(lines).encode()


def body_around(size: str, name: str) -> tuple[bytes, bytes]:
    """An event's bytes before and after the place where it is named."""
    invoice = {
        "id": "in_1PZ0k2Lkd",
        "event": PLACE,
        "amount_due": 2000,
        "currency": "eur",
        "customer": {"id": "cus_9s6XKzkNRiz8i3", "name": "Zoë Ångström", "country": "SE"},
        "metadata": {"order": "order-6735", "channel": "web", "weight": 0.25},
        "lines": [line(number) for number in range(SIZES[size])],
        "livemode": True,
    }
    happened = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    event = {"type": name, "timestamp": happened, "data": invoice}
    before, after = json.dumps(event, separators=(",", ":")).encode().split(PLACE.encode())
    return before, after


def line(number: int) -> dict[str, object]:
    return {
        "id": f"il_{number:06}Lkd2b3c4d5e",
        "amount": 2000 + number,
        "currency": "eur",
        "description": f"Café crème, cup {number}",
        "period": {"start": 1767225600, "end": 1769904000},
        "metadata": {"order": f"order-{number}", "weight": 0.25},
    }
