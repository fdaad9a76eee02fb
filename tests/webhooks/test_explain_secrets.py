"""Secrets that ended, that belong elsewhere, or that were written down in another form."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly.webhooks import Hmac, provider_named
from tests.webhooks.mistakes import (
    BODY,
    HELD,
    HEX,
    KEYED,
    NOW,
    RAW,
    TEXT,
    TOKENS,
    URL,
    WHSEC,
    explained,
    sent,
    source,
)


@pytest.mark.parametrize("provider", ["stripe", "github", "standard-webhooks", "shopify", "square"])
def test_a_secret_that_ended_is_named_with_its_end(provider: str) -> None:
    ended = datetime.fromtimestamp(NOW, UTC) - timedelta(days=2)
    secrets = [
        duly.Secret(HELD.get(provider, TEXT), name="last-year", not_after=ended),
        duly.Secret("whsec_" + base64.b64encode(b"new").decode(), name="this-year"),
    ]
    delivery = sent(provider)
    sentence = explained(
        duly.Source(provider, secrets, url=URL), delivery.headers, delivery.body, now=NOW + 1
    )
    assert "the secret 'last-year', which ended on 2025-12-30T00:00:00+00:00" in sentence


@pytest.mark.parametrize("provider", ["stripe", "github", "standard-webhooks", "slack"])
def test_the_secret_of_another_source_names_that_source(provider: str) -> None:
    delivery = sent(provider)
    ours = duly.Source(provider, "whsec_" + base64.b64encode(b"ours").decode(), name="ours")
    others = [duly.Source("shopify", "unrelated", name="shop"), source(provider, name="theirs")]
    sentence = explained(ours, delivery.headers, delivery.body, others=others)
    assert sentence.startswith("It is a genuine delivery of the source 'theirs'")


def test_a_delivery_of_another_provider_names_the_source_it_was_meant_for() -> None:
    delivery = sent("slack")
    ours = duly.Source("github", "our secret")
    sentence = explained(
        ours, delivery.headers, delivery.body, others=[source("slack", name="team-chat")]
    )
    assert "a genuine delivery of the source 'team-chat'" in sentence
    assert "path of 'github' by mistake" in sentence


def test_a_secret_that_was_given_to_a_source_of_another_provider_is_found() -> None:
    delivery = sent("github")
    others = [duly.Source("shopify", {"shop-key": TEXT}, name="shop")]
    ours = duly.Source("github", "our secret")
    sentence = explained(ours, delivery.headers, delivery.body, others=others)
    assert "was signed with the secret 'shop-key' of the source 'shop'" in sentence


def test_the_right_secret_under_the_wrong_provider_names_the_right_one() -> None:
    delivery = sent("stripe")
    sentence = explained(duly.Source("paddle", TEXT), delivery.headers, delivery.body)
    assert "signed the way of Stripe" in sentence
    assert "provider 'stripe'" in sentence


NAKED = base64.b64encode(RAW).decode()
HASHED = duly.Provider("hashed", Hmac(header="X-Signature"))
HEXED = duly.Provider("hexed", Hmac(header="X-Signature", secret="hex"))
FORMS: list[tuple[Any, Any, Any, str]] = [
    ("stripe", "whsec_canary-secret", "canary-secret", "lacks its beginning"),
    ("stripe", "canary-secret", "whsec_canary-secret", "without its beginning whsec_"),
    ("stripe", TEXT, f'"{TEXT}"', "has quotes around it"),
    ("slack", TEXT, f"'{TEXT}'", "has quotes around it"),
    ("github", TEXT, f"Bearer {TEXT}", "begins with the word Bearer"),
    ("github", "canary+secret", "canary%2Bsecret", "is escaped as in a URL"),
    ("github", TEXT, TEXT.encode() + b"\n", "has white space or a line break around it"),
    ("shopify", RAW, NAKED, "stands for bytes in base64"),
    ("stripe", RAW, WHSEC, "stands for bytes in base64"),
    (HASHED, RAW, HEX, "stands for bytes in hexadecimal"),
    (HEXED, HEX.encode(), HEX, "is used by the sender as plain text: pass it as bytes"),
    ("standard-webhooks", WHSEC.encode(), WHSEC, "is used by the sender as plain text: pass it"),
    ("svix", NAKED.encode(), WHSEC, "is used by the sender as plain text without its whsec_"),
    ("standard-webhooks", WHSEC, WHSEC.encode(), "was given as bytes, but is text"),
    ("adyen", HEX, HEX.encode(), "was given as bytes, but is text"),
    ("gitlab", WHSEC, NAKED, "lacks its beginning"),
]


@pytest.mark.parametrize(("provider", "signer", "held", "sentence"), FORMS)
def test_a_secret_in_the_wrong_form_is_recognised(
    provider: Any, signer: Any, held: Any, sentence: str
) -> None:
    body = provider_named("adyen").sample if provider == "adyen" else BODY
    delivery = duly.sign(provider, body, signer, now=NOW)
    found = explained(duly.Source(provider, {"main": held}), delivery.headers, delivery.body)
    assert found.startswith("The secret 'main' ")
    assert sentence in found


def test_a_key_of_an_api_is_not_a_signing_secret() -> None:
    delivery = sent("stripe")
    sentence = explained(
        duly.Source("stripe", {"live": "sk_live_canary"}), delivery.headers, delivery.body
    )
    assert "The secret 'live' looks like a key that calls the API of Stripe" in sentence


@pytest.mark.parametrize(
    ("provider", "older", "better"),
    [("github", 1, "X-Hub-Signature-256"), ("hubspot", 1, "X-HubSpot-Signature-v3")],
)
def test_a_signature_that_is_switched_off_is_told_from_a_missing_one(
    provider: str, older: int, better: str
) -> None:
    profile = provider_named(provider)
    delivery = duly.sign(replace(profile, scheme=profile.schemes[older]), BODY, TEXT, url=URL)
    sentence = explained(source(provider, legacy=False), delivery.headers, delivery.body)
    assert "was signed the older way, which legacy=False refuses" in sentence
    assert better in sentence


def test_a_key_under_another_id_is_recognised() -> None:
    held = [duly.Secret(WHSEC, name="main", key_id="k1")]
    delivery = duly.sign(KEYED, BODY, WHSEC, id="k2_1", now=NOW)
    sentence = explained(duly.Source(KEYED, held), delivery.headers, delivery.body)
    assert sentence.startswith("The key 'main' made this signature")
    assert "key_id='k1'" in sentence


@pytest.mark.parametrize("provider", [KEYED, TOKENS])
def test_a_key_that_is_not_there_asks_for_the_key_set(provider: duly.Provider) -> None:
    held = [duly.Secret("whsec_" + "YWJj", name="main", key_id="k1")]
    signer = duly.Secret(WHSEC, key_id="k2")
    delivery = duly.sign(provider, BODY, signer, id="k2_1", now=NOW)
    sentence = explained(duly.Source(provider, held), delivery.headers, delivery.body)
    assert "names a key that this source does not have: fetch the provider's key set" in sentence
    assert "(it has 'k1')" in sentence
