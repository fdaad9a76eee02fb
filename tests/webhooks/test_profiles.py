"""Every profile on the shelf is complete, works as it stands, and agrees with the looked-up facts.

The facts below are those of our table of providers that were checked in a source; where a profile
says something else on purpose, `ON_PURPOSE` holds the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Provider, Source
from duly.errors import Rejected, UsageError
from duly.webhooks import Code, Hmac, provider_named, provider_names
from tests.webhooks.genuine import NOW, PROVIDERS, delivered, source, verified

SIXTEEN = {
    "adyen", "discord", "github", "gitlab", "hubspot", "linear", "paddle", "sendgrid", "shopify",
    "slack", "square", "standard-webhooks", "stripe", "svix", "twilio", "zoom",
}  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """What a source says; None where none was found."""

    headers: tuple[str, ...]
    id: str | None = None
    tolerance: int | None = None
    ack_timeout: int | None = None
    retry_horizon: int | None = None


FACTS = {
    "stripe": Fact(("Stripe-Signature",), "body:id", 300, None, 259200),
    "github": Fact(
        ("X-Hub-Signature-256", "X-Hub-Signature"), "header:X-GitHub-Delivery", None, 10, 0
    ),
    "slack": Fact(("X-Slack-Signature", "X-Slack-Request-Timestamp"), "body:event_id", 300),
    "shopify": Fact(
        ("X-Shopify-Hmac-Sha256", "Shopify-Hmac-Sha256"),
        "header:X-Shopify-Event-Id",
        retry_horizon=14400,
    ),
    "twilio": Fact(("X-Twilio-Signature",)),
    "square": Fact(("x-square-hmacsha256-signature",), "body:event_id", retry_horizon=86400),
    "paddle": Fact(("Paddle-Signature",), "body:event_id", 5, 5, 259200),
    "linear": Fact(("Linear-Signature",)),
    "discord": Fact(
        ("X-Signature-Ed25519", "X-Signature-Timestamp"), ack_timeout=3, retry_horizon=600
    ),
    "zoom": Fact(("x-zm-signature", "x-zm-request-timestamp"), ack_timeout=3, retry_horizon=5100),
    "hubspot": Fact(("X-HubSpot-Signature-v3", "X-HubSpot-Signature"), tolerance=300),
    "sendgrid": Fact(
        ("X-Twilio-Email-Event-Webhook-Signature", "X-Twilio-Email-Event-Webhook-Timestamp")
    ),
    "svix": Fact(("svix-signature", "svix-id", "svix-timestamp"), "header:svix-id", 300, 15, 99305),
    "standard-webhooks": Fact(
        ("webhook-signature", "webhook-id", "webhook-timestamp"),
        *("header:webhook-id", 300),
        retry_horizon=272105,
    ),
    "gitlab": Fact(("X-Gitlab-Token", "webhook-signature"), "header:Idempotency-Key"),
    "adyen": Fact(
        ("additionalData.hmacSignature", "HmacSignature"),
        ack_timeout=10,
        retry_horizon=2592000,
    ),
}
ON_PURPOSE = {
    ("shopify", "retry_horizon"): (
        timedelta(days=1),
        "eight retries take four hours, but deliveries have been seen up to a day late",
    ),
    ("square", "retry_horizon"): (
        timedelta(hours=72),
        "one of Square's pages says 24 hours and another 72: remembering longer is safe",
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_profile_says_all_that_a_user_must_know(provider: str) -> None:
    profile = provider_named(provider)
    assert profile.name == provider
    assert profile.title
    assert profile.docs
    assert profile.docs.startswith("https://")
    assert " " not in profile.docs
    assert profile.notes.endswith(".")
    assert isinstance(profile.retry_horizon, timedelta)
    assert profile.id
    assert profile.type
    assert profile.sample != b"{}"
    assert profile.success in {200, 202, 204}
    assert profile.reject in {None, 401}


def test_the_first_sixteen_are_on_the_shelf_in_order() -> None:
    assert set(provider_names()) >= SIXTEEN
    assert list(provider_names()) == sorted(provider_names())
    assert FACTS.keys() == SIXTEEN


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_sample_of_every_profile_signs_and_verifies(provider: str) -> None:
    found = verified(source(provider, parse="require", missing_id="reject"), delivered(provider))
    assert found.provider is provider_named(provider)
    assert found.unreadable is None
    assert found.type or provider in {"github", "shopify"}  # theirs is told by the caller


def named(profile: Provider) -> str:
    """Everything that a profile's schemes read or write, in lower case."""
    signed = delivered(profile.name)
    aliases = [alias for one in profile.schemes for alias in getattr(one, "aliases", ())]
    return "\n".join(
        [*signed.headers, *aliases, *(one.describe_location() for one in profile.schemes)]
    ).lower()


@pytest.mark.parametrize("provider", FACTS)
def test_profiles_use_the_headers_and_ids_that_sources_name(provider: str) -> None:
    profile, fact = provider_named(provider), FACTS[provider]
    for name in fact.headers:
        assert name.lower() in named(profile)
    if fact.id is not None:
        assert fact.id.lower() in (profile.id or "").lower()


@pytest.mark.parametrize("fact", ["tolerance", "ack_timeout", "retry_horizon"])
@pytest.mark.parametrize("provider", FACTS)
def test_profiles_keep_the_times_that_sources_name(provider: str, fact: str) -> None:
    said = getattr(FACTS[provider], fact)
    kept = getattr(provider_named(provider), fact)
    if (provider, fact) in ON_PURPOSE:
        chosen, reason = ON_PURPOSE[provider, fact]
        assert kept == chosen
        assert timedelta(seconds=said) < chosen, reason
    elif said is not None:
        assert kept == timedelta(seconds=said)


# Those whose retries are known, or cannot be ruled out, to carry the time of the first attempt.
SIGNED_ONCE = {"linear", "zoom", "sendgrid", "discord"}


@pytest.mark.parametrize("provider", sorted(SIGNED_ONCE))
def test_the_last_retry_of_a_delivery_that_is_signed_once_is_still_taken(provider: str) -> None:
    horizon = provider_named(provider).retry_horizon.total_seconds()
    assert verified(source(provider), delivered(provider), now=NOW + horizon).secret == "1"


TIMED = sorted(SIXTEEN - {"github", "shopify", "square", "twilio", "adyen"})


@pytest.mark.parametrize("provider", TIMED)
def test_a_delivery_is_taken_within_its_tolerance_and_refused_beyond(provider: str) -> None:
    tolerance = provider_named(provider).tolerance
    assert tolerance is not None
    seconds = tolerance.total_seconds()
    ahead = min(seconds, 300)
    signed = delivered(provider)
    for age, good in ((seconds, True), (seconds + 1, False), (-ahead, True), (-ahead - 1, False)):
        if good:
            assert verified(source(provider), signed, now=NOW + age).sent_at
            continue
        with pytest.raises(Rejected) as caught:
            verified(source(provider), signed, now=NOW + age)
        assert caught.value.code is Code.STALE_TIMESTAMP
        assert verified(source(provider, tolerance=None), signed, now=NOW + age).sent_at


@pytest.mark.parametrize(
    ("name", "near"),
    [("strip", "stripe"), ("Stripe", "stripe"), ("git-hub", "github"), ("hub-spot", "hubspot"),
     ("standardwebhooks", "standard-webhooks"), ("standard_webhooks", "standard-webhooks")],
)  # fmt: skip
def test_an_unknown_name_is_answered_with_a_near_one(name: str, near: str) -> None:
    for call in (provider_named, lambda told: Source(told, "s"), lambda told: duly.sign(told, b"")):
        with pytest.raises(UsageError, match=f"did you mean '{near}'"):
            call(name)


@pytest.mark.parametrize("name", ["", "nobody at all", "providers", "__init__"])
def test_a_name_like_no_other_is_answered_with_the_way_out(name: str) -> None:
    with pytest.raises(UsageError, match="write any other") as caught:
        provider_named(name)
    assert "stripe" in str(caught.value)


def test_a_profile_is_data_and_cannot_be_changed() -> None:
    profile = provider_named("stripe")
    assert profile is provider_named("stripe")
    for one in fields(profile):
        with pytest.raises(AttributeError):
            setattr(profile, one.name, None)


SPOILED: list[tuple[dict[str, Any], str]] = [
    ({"name": "Upper"}, "the name of a provider"),
    ({"name": ""}, "the name of a provider"),
    ({"name": 5}, "the name of a provider"),
    ({"scheme": None}, "scheme must be"),
    ({"scheme": ()}, "scheme must be"),
    ({"scheme": "hmac"}, "scheme must be"),
    ({"id": "id"}, "a selector must be"),
    ({"id": 5}, "a selector must be"),
    ({"id": "body:"}, "a selector must be"),
    ({"id": "body:a..b"}, "a selector must be"),
    ({"id": "cookie:a"}, "a selector must be"),
    ({"id": "body:a?"}, "must|may"),
    ({"type": "nowhere"}, "a selector must be"),
    ({"time": "nowhere"}, "a selector must be"),
    ({"version": "nowhere"}, "a selector must be"),
    ({"sent_at": "nowhere"}, "a selector must be"),
    ({"sent_at": 5}, "a selector must be"),
    ({"tolerance": 5}, "tolerance must be"),
    ({"ack_timeout": timedelta(-1)}, "ack_timeout must be"),
    ({"retry_horizon": None}, "retry_horizon must be"),
    ({"success": 99}, "success must be"),
    ({"reject": "no"}, "reject must be"),
    ({"sample": "text"}, "sample must be"),
]


@pytest.mark.parametrize(("spoiled", "told"), SPOILED)
def test_a_provider_that_cannot_work_is_refused_when_it_is_made(
    spoiled: dict[str, Any], told: str
) -> None:
    good: dict[str, Any] = {"name": "own", "scheme": Hmac(header="X-Sum")}
    assert Provider(**good).schemes
    with pytest.raises(UsageError, match=told):
        Provider(**(good | spoiled))
