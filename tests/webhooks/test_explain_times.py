"""Times that are too old, too new, altered or counted in another unit."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly.webhooks import Hmac, NamedFields, provider_named
from tests.webhooks.mistakes import BODY, NOW, TEXT, changed, explained, sent, source

TIMED = ["stripe", "slack", "standard-webhooks", "svix", "paddle", "zoom", "discord", "hubspot"]


@pytest.mark.parametrize("provider", TIMED)
def test_an_old_signature_is_told_with_its_age_and_what_is_allowed(provider: str) -> None:
    delivery, receiver = sent(provider), source(provider)
    assert receiver.tolerance is not None
    age = int(receiver.tolerance) + 137
    sentence = explained(receiver, delivery.headers, delivery.body, now=NOW + age)
    assert f"it was made {age} seconds ago and this source allows {age - 137}" in sentence
    assert "or is the clock of this machine ahead?" in sentence


@pytest.mark.parametrize("provider", TIMED)
def test_a_signature_from_the_future_puts_our_own_clock_in_doubt(provider: str) -> None:
    delivery = sent(provider)
    sentence = explained(source(provider), delivery.headers, delivery.body, now=NOW - 777)
    assert "it was made 777 seconds in the future and this source allows " in sentence
    assert "the clock of this machine seems to be behind." in sentence


@pytest.mark.parametrize(("skew", "hours"), [(3590, "1 whole hour,"), (-7230, "2 whole hours,")])
def test_a_skew_of_whole_hours_looks_like_a_time_zone(skew: int, hours: str) -> None:
    delivery = sent("stripe")
    sentence = explained(source("stripe"), delivery.headers, delivery.body, now=NOW + skew)
    assert f"close to {hours}" in sentence
    assert "local time instead of UTC" in sentence


def test_the_time_inside_a_body_is_told_like_any_other() -> None:
    delivery = sent("linear", provider_named("linear").sample)
    sentence = explained(source("linear"), delivery.headers, delivery.body, now=NOW + 30_000)
    assert "it was made 30000 seconds ago and this source allows 25560" in sentence


ALTERED: list[tuple[str, str, Any]] = [
    ("slack", "x_slack_request_timestamp", NOW * 1000),
    ("zoom", "x_zm_request_timestamp", f"{NOW}.0"),
    ("discord", "x_signature_timestamp", "2026-01-01T00:00:00+00:00"),
    ("standard-webhooks", "webhook_timestamp", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ("svix", "svix_timestamp", NOW + 2),
    ("sendgrid", "x_twilio_email_event_webhook_timestamp", f"+{NOW}"),
]


@pytest.mark.parametrize(("provider", "header", "value"), ALTERED)
def test_a_time_that_was_written_again_is_found(provider: str, header: str, value: Any) -> None:
    delivery = sent(provider)
    headers = changed(delivery, **{header: str(value)})
    sentence = explained(source(provider), headers, delivery.body)
    assert f"was changed on the way: the signature was made for the time {NOW}." in sentence
    assert header.replace("_", "-") in sentence


SECONDS = {"header": "X-Signature", "timestamp": "X-Time", "signed": "{timestamp}.{body}"}
PAIRS = {
    "header": "X-Signature",
    "fields": NamedFields(signature="v1", timestamp="t"),
    "signed": "{timestamp}.{body}",
}


@pytest.mark.parametrize("shape", [SECONDS, PAIRS])
@pytest.mark.parametrize(
    ("told", "expected", "word"),
    [("ms", "s", "milliseconds where this source expects seconds"),
     ("s", "ms", "seconds where this source expects milliseconds"),
     ("us", "s", "microseconds where")],
)  # fmt: skip
def test_a_time_in_another_unit_is_recognised(
    shape: dict[str, Any], told: str, expected: str, word: str
) -> None:
    sender = duly.Provider("timed", Hmac(**shape, unit=told))
    receiver = duly.Provider("timed", Hmac(**shape, unit=expected))
    delivery = duly.sign(sender, BODY, TEXT, now=NOW)
    sentence = explained(duly.Source(receiver, TEXT), delivery.headers, delivery.body)
    assert f"its time counts {word}" in sentence
    assert f"write unit={told!r} in the scheme" in sentence
