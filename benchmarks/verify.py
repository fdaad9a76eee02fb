"""Verifications per second, next to the libraries that senders hand out for it.

Rows are named ``<peer>/<measure>/<size>``. Both sides of a row get the same headers and the same
bytes, and each is used as its documentation shows. ``signature`` ends with the knowledge that the
delivery is genuine, ``parsed`` with the event in hand. Before a side is measured it must have read
the event and refused the same delivery with one word changed; every answer is looked at.

``plan/<provider>/<size>`` compares duly with itself: the plan of a source, which is what receiving
runs, with the whole verification and the fields that receiving takes from it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any

import standardwebhooks
import stripe
import svix.webhooks

import duly
from benchmarks.duels import Contender, Duel
from duly.webhooks import Code, check_signature
from duly.webhooks.delivery import Delivery
from duly.webhooks.receive_plan import compile_plan
from duly.webhooks.verify import verify_delivery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.webhooks.receive_plan import ReceivePlan

AIM = 1.5
FORGED = (
    duly.errors.Rejected,
    standardwebhooks.WebhookVerificationError,
    stripe.SignatureVerificationError,
    svix.webhooks.WebhookVerificationError,
)
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
TOLERANCE = 300
# The lines of an invoice in each size of body: about 300 bytes, 2 KB and 64 KB.
SIZES = {"small": 0, "usual": 7, "large": 264}
IDENTIFIER = "evt_1PZ0k3Lkd2b3c4d5e"
# What arrives with a delivery behind a proxy, besides the signature.
AROUND = {
    "Host": "shop.example",
    "User-Agent": "Sender/1.0 (+https://sender.example/webhooks)",
    "Accept": "*/*",
    "Accept-Encoding": "gzip",
    "Content-Type": "application/json; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Forwarded-For": "203.0.113.7",
    "X-Forwarded-Proto": "https",
}

# What a side does with the bytes of a delivery.
Verifier = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One genuine delivery."""

    headers: dict[str, str]
    body: bytes

    def duel(self, name: str, ours: Verifier, peer: Verifier) -> Duel:
        """Both sides at this delivery, as soon as both are known to do their work."""
        measured = read if "/parsed/" in name else certain
        for side in (ours, peer):
            refuses(name, side, self.body)
        return Duel(name, measured(name, ours, self.body), measured(name, peer, self.body), AIM)


@contextmanager
def duels(stores: Sequence[str], *, lean: bool) -> Iterator[list[Duel]]:  # noqa: ARG001
    """The duels of every peer in every size; there is nothing to open."""
    yield [
        duel
        for peer in (on_standard, on_stripe, on_svix, on_plan)
        for size, lines in SIZES.items()
        for duel in peer(size, lines)
    ]


def on_standard(size: str, lines: int) -> Iterator[Duel]:
    """Against the library of the Standard Webhooks specification."""
    source, peer = duly.Source("standard-webhooks", SECRET), standardwebhooks.Webhook(SECRET)
    arrival = arrived("standard-webhooks", lines)
    headers = arrival.headers
    yield arrival.duel(
        f"standardwebhooks/signature/{size}",
        lambda body: check_signature(source, headers, body),
        lambda body: peer.verify(body, headers, json_parse=False),
    )
    yield arrival.duel(
        f"standardwebhooks/parsed/{size}",
        lambda body: duly.verify(source, headers, body).json,
        lambda body: peer.verify(body, headers),
    )


def on_stripe(size: str, lines: int) -> Iterator[Duel]:
    """Against Stripe's own library, which is handed the one header that it needs."""
    source = duly.Source("stripe", SECRET)
    check, construct = stripe.WebhookSignature.verify_header, stripe.Webhook.construct_event
    arrival = arrived("stripe", lines)
    headers = arrival.headers
    yield arrival.duel(
        f"stripe/signature/{size}",
        lambda body: check_signature(source, headers, body),
        lambda body: check(body, headers["Stripe-Signature"], SECRET, TOLERANCE),
    )
    yield arrival.duel(
        f"stripe/parsed/{size}",
        lambda body: duly.verify(source, headers, body).json,
        lambda body: construct(body, headers["Stripe-Signature"], SECRET, TOLERANCE),
    )


def on_svix(size: str, lines: int) -> Iterator[Duel]:
    """Against Svix's own library, which parses nothing."""
    source, peer = duly.Source("svix", SECRET), svix.webhooks.Webhook(SECRET)
    arrival = arrived("svix", lines)
    headers = arrival.headers
    yield arrival.duel(
        f"svix/signature/{size}",
        lambda body: check_signature(source, headers, body),
        lambda body: peer.verify(body, headers),
    )


def on_plan(size: str, lines: int) -> Iterator[Duel]:
    """The plan of a source against the whole verification that it stands in for."""
    for provider in ("stripe", "standard-webhooks"):
        arrival, source = arrived(provider, lines), duly.Source(provider, SECRET)
        fields = {name.lower(): value for name, value in arrival.headers.items()}
        headers = {name.encode(): value.encode() for name, value in fields.items()}
        plan = compile_plan(source)
        assert plan is not None

        def planned(body: bytes, plan: ReceivePlan = plan, headers: Any = headers) -> Any:
            found = plan(headers, body, time())
            if found is None:
                raise duly.errors.Rejected(Code.BAD_SIGNATURE, "it has no plan")
            return found.id, found.type

        def whole(body: bytes, source: duly.Source = source, fields: Any = fields) -> Any:
            found = verify_delivery(source, Delivery(fields, body, None, "POST", time())).event
            return found.id, found.type

        yield arrival.duel(f"plan/{provider}/{size}", planned, whole)


def arrived(provider: str, lines: int) -> Arrival:
    """A delivery signed now; a run is over before it is too old."""
    body = json.dumps(event_of(lines), separators=(",", ":")).encode()
    signed = duly.sign(provider, body, SECRET, id="msg_2b3c4d5e6f7a8b9c0d1e2f3a", headers=AROUND)
    return Arrival(signed.headers, body)


def event_of(lines: int) -> dict[str, Any]:
    """An event that every receiver here can read: an invoice with as many lines."""
    invoice = {
        "id": "in_1PZ0k2Lkd",
        "object": "invoice",
        "amount_due": 2000 * max(lines, 1),
        "currency": "eur",
        "customer": "cus_9s6XKzkNRiz8i3",
        "lines": {"object": "list", "data": [line(number) for number in range(lines)]},
    }
    return {
        "id": IDENTIFIER,
        "object": "event",
        "type": "invoice.paid",
        "created": 1767225600,
        "livemode": True,
        "data": {"object": invoice},
    }


def line(number: int) -> dict[str, Any]:
    return {
        "id": f"il_{number:06}Lkd2b3c4d5e",
        "object": "line_item",
        "amount": 2000 + number,
        "currency": "eur",
        "description": f"Café crème, cup {number}",
        "discountable": True,
        "period": {"start": 1767225600, "end": 1769904000},
        "metadata": {"order": f"order-{number}", "weight": 0.25},
    }


def refuses(name: str, side: Verifier, body: bytes) -> None:
    """End the run over a side that takes a forged delivery for genuine."""
    forged = body.replace(b"invoice.paid", b"invoice.void")
    try:
        side(forged)
    except FORGED:
        return
    raise AssertionError(f"{name}: a forged delivery was taken for genuine")


def certain(name: str, side: Verifier, body: bytes) -> Contender:
    """A side that says whether a delivery is genuine: it raises, or says False, if not."""

    def run(numbers: range) -> None:
        if False in [side(body) for _ in numbers]:
            raise AssertionError(f"{name}: a genuine delivery was refused")

    return Contender(run)


def read(name: str, side: Verifier, body: bytes) -> Contender:
    """A side that comes back with the event."""
    found = side(body)
    event = found.to_dict() if isinstance(found, stripe.Event) else found
    if event != json.loads(body):
        raise AssertionError(f"{name}: the event was read wrongly")

    def run(numbers: range) -> None:
        if {side(body)["id"] for _ in numbers} != {IDENTIFIER}:
            raise AssertionError(f"{name}: an event was read wrongly")

    return Contender(run)
