"""What others published about the sixteen providers is what the gate says of it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import duly
from duly.webhooks import StandardWebhooks, provider_named, provider_names
from tests.webhooks.vectors import SHELF, VECTORS, VERIFIED, Vector, checked, outcome

# Written down, so that no vector can vanish without a word.
COUNTS = {
    "adyen": 7,
    "discord": 5,
    "github": 20,
    "gitlab": 7,
    "hubspot": 9,
    "linear": 3,
    "paddle": 14,
    "sendgrid": 7,
    "shopify": 6,
    "slack": 10,
    "square": 3,
    "standard-webhooks": 8,
    "stripe": 11,
    "svix": 11,
    "twilio": 27,
    "zoom": 5,
}
# Where a provider's first scheme puts its signature; Adyen's is inside the body.
SIGNATURES = {
    "discord": "x-signature-ed25519",
    "github": "x-hub-signature-256",
    "gitlab": "webhook-signature",
    "hubspot": "x-hubspot-signature-v3",
    "linear": "linear-signature",
    "paddle": "paddle-signature",
    "shopify": "x-shopify-hmac-sha256",
    "slack": "x-slack-signature",
    "square": "x-square-hmacsha256-signature",
    "standard-webhooks": "webhook-signature",
    "stripe": "stripe-signature",
    "svix": "svix-signature",
    "twilio": "x-twilio-signature",
    "zoom": "x-zm-signature",
}
# The URL of these was signed with another port, case or escape than the one that was called.
URL_WRITTEN_OTHERWISE = {
    "hubspot-v3-escaped-url",
    "twilio-https-443",
    "twilio-php-user-and-added-port",
    "twilio-csharp-upper-case-scheme",
    "twilio-csharp-removed-port",
    "twilio-csharp-added-port-80",
    "twilio-node-port-443-not-signed",
    "twilio-node-quote-escaped-on-the-way",
    "twilio-node-quote-plain-on-the-way",
}
WORD = re.compile(r"[^ ,;]+")
IN_THE_BODY = re.compile(rb'"hmacSignature": ?"([^"]+)"')


def published(vector: Vector) -> str | None:
    """The signature of a vector, where it is of the kind that we would send."""
    if vector.provider == "adyen":
        found = IN_THE_BODY.search(vector.body)
        return None if found is None else found.group(1).decode()
    sent = {name.lower(): value for name, value in vector.headers}
    return sent.get(SIGNATURES.get(vector.provider, ""))


def made(vector: Vector) -> str:
    """The signature that we make of the same content, at the time that was signed."""
    told = checked(vector, vector.provider)
    named = isinstance(provider_named(vector.provider).schemes[0], StandardWebhooks)
    signed = duly.sign(
        vector.provider,
        vector.body,
        vector.private or vector.key,
        id=told.id if named else None,
        now=vector.now if told.sent_at is None else told.sent_at,
        url=vector.url,
        method=vector.method,
        headers={"Content-Type": told.headers.get("content-type", "application/json")},
    )
    if vector.provider == "adyen":
        [found] = IN_THE_BODY.findall(signed.body)
        return str(found.decode())
    return {name.lower(): value for name, value in signed.headers.items()}[
        SIGNATURES[vector.provider]
    ]


REPRODUCIBLE = [
    vector
    for vector in SHELF
    if vector.expected == VERIFIED
    and published(vector) is not None
    and vector.name not in URL_WRITTEN_OTHERWISE
]


@pytest.mark.parametrize("vector", SHELF, ids=str)
def test_a_vector_has_the_outcome_that_its_source_states(vector: Vector) -> None:
    assert outcome(vector, vector.provider) == vector.expected


@pytest.mark.parametrize("vector", REPRODUCIBLE, ids=str)
def test_we_sign_as_the_provider_does(vector: Vector) -> None:
    # Several signatures may have been sent, of which ours must be one.
    ours, theirs = made(vector), published(vector)
    assert theirs is not None
    assert set(WORD.findall(ours)) <= set(WORD.findall(theirs))


def test_no_vector_has_vanished() -> None:
    assert Counter(vector.provider for vector in SHELF) == COUNTS
    assert len({vector.name for vector in VECTORS}) == len(VECTORS)
    assert len(REPRODUCIBLE) == 61


def test_every_provider_has_a_delivery_to_accept_and_one_to_reject() -> None:
    for provider in provider_names():
        outcomes = {vector.expected for vector in SHELF if vector.provider == provider}
        assert VERIFIED in outcomes, provider
        assert outcomes - {VERIFIED}, provider


def test_every_vector_says_where_it_is_from() -> None:
    for vector in VECTORS:
        assert re.match(r"github:[^/]+/[^:]+:.+|https://", vector.source), vector.name
