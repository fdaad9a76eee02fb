"""Any provider is a signer too: what `sign` makes, `verify` takes, and the same each time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import duly
from duly import Provider, Source
from duly.errors import Rejected, UsageError
from duly.webhooks import Hmac, SharedToken, Signed
from tests.webhooks.genuine import NOW, PROVIDERS, URL, delivered, keys, source, verified

# ECDSA draws a random number for each signature.
DETERMINISTIC = sorted(set(PROVIDERS) - {"sendgrid"})
JSON = some.dictionaries(some.text(), some.integers() | some.text() | some.booleans())


@pytest.mark.parametrize("provider", DETERMINISTIC)
def test_signing_is_pure(provider: str) -> None:
    first, second = (delivered(provider, id="msg-1", type="t") for _ in range(2))
    assert first == second
    assert delivered(provider, id="msg-1", now=NOW + 60) != first or provider in {
        "adyen", "github", "shopify", "square", "twilio", "linear"
    }  # fmt: skip


def test_signing_changes_nothing_it_was_given() -> None:
    headers, body = {"X-Mine": "1"}, bytearray(b"{}")
    signed = duly.sign("stripe", body, "s", now=NOW, headers=headers)  # type: ignore[arg-type]
    assert headers == {"X-Mine": "1"}
    assert body == b"{}"
    assert signed.headers["X-Mine"] == "1"
    signed.headers["X-Mine"] = "2"
    assert headers == {"X-Mine": "1"}


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "twilio"])
@settings(max_examples=25, deadline=None)
@given(content=JSON, padding=some.sampled_from(["", " ", "\n", "\r\n"]))
def test_any_json_makes_the_round_trip(
    provider: str, content: dict[str, Any], padding: str
) -> None:
    body = (json.dumps(content) + padding).encode()
    signed = delivered(provider, body)
    found = verified(source(provider), signed)
    assert found.body == signed.body
    if provider != "adyen":
        assert signed.body == body


@pytest.mark.parametrize(
    "provider", [name for name in PROVIDERS if name not in {"twilio", "adyen"}]
)
@settings(max_examples=25, deadline=None)
@given(body=some.binary())
def test_any_bytes_make_the_round_trip(provider: str, body: bytes) -> None:
    signed = delivered(provider, body)
    assert verified(source(provider), signed).body == body
    with pytest.raises(Rejected):
        verified(source(provider), signed, body=body + b"x")


@settings(deadline=None)
@given(some.dictionaries(some.text(), some.text(), max_size=9))
def test_any_form_makes_the_round_trip_of_twilio(fields: dict[str, str]) -> None:
    body = urlencode(fields).encode()
    assert verified(source("twilio"), delivered("twilio", body)).form == list(fields.items())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_source_signs_with_its_first_secret_to_its_own_url(provider: str) -> None:
    pairs = [keys(provider, seed) for seed in ("first", "second")]
    signer = Source(provider, [pair.sender for pair in pairs], url=URL) if (
        provider not in {"sendgrid", "discord"}
    ) else None  # fmt: skip
    if signer is None:  # a source of theirs holds public keys
        with pytest.raises(UsageError, match="private key"):
            duly.sign(source("sendgrid"), b"[]")
        return
    signed = duly.sign(signer, b"{}", now=NOW)
    receiver = Source(provider, {"a": pairs[1].receiver, "b": pairs[0].receiver}, url=URL)
    assert verified(receiver, signed).secret == "b"


@pytest.mark.parametrize("secret", ["a plain token", "YWJjZGVm", "whsec_YWJjZGVm"])
def test_a_gitlab_source_signs_the_way_its_secret_is_meant(secret: str) -> None:
    where = Source("gitlab", secret)
    assert verified(where, duly.sign(where, b"{}", now=NOW)).secret == "1"
    assert verified(where, duly.sign("gitlab", b"{}", secret, now=NOW)).secret == "1"


def test_ids_and_types_travel_in_the_headers_of_their_provider() -> None:
    for provider, named in {
        "github": ("x-github-delivery", "x-github-event"),
        "shopify": ("x-shopify-webhook-id", "x-shopify-topic"),
        "gitlab": ("webhook-id", "x-gitlab-event"),
        "linear": ("linear-delivery", None),
        "twilio": ("i-twilio-idempotency-token", None),
        "svix": ("svix-id", None),
        "standard-webhooks": ("webhook-id", None),
    }.items():
        signed = delivered(provider, id="msg-1", type="thing.done")
        told = {name.lower(): value for name, value in signed.headers.items()}
        assert told[named[0]] == "msg-1"
        assert named[1] is None or told[named[1]] == "thing.done"
        found = verified(source(provider), signed)
        assert found.id == "msg-1"
        assert named[1] is None or (found.type or "").startswith("thing.done")


def test_without_an_id_the_body_makes_one() -> None:
    one, same, other = (delivered("github", body) for body in (b"{}", b"{}", b"[]"))
    ids = [verified(source("github"), signed).id for signed in (one, same, other)]
    assert ids[0] == ids[1] != ids[2]


def test_a_header_of_the_callers_own_wins_in_any_case() -> None:
    signed = delivered("github", id="a", type="t", headers={"X-GITHUB-DELIVERY": "b"})
    found = verified(source("github"), signed)
    assert (found.id, found.type) == ("b", "t.opened")
    signed = delivered("twilio", b"{}", headers={"content-type": "application/json"})
    assert [name.lower() for name in signed.headers].count("content-type") == 1
    assert "bodySHA256=" in (signed.url or "")
    assert verified(source("twilio"), signed).json == {}


UNFIT_IDS = ["caf\u00e9", "\N{SNOWMAN}", "a\nb", "a\rb", "\0", "", " ", 5, True, b"bytes", ["a"]]


@pytest.mark.parametrize("identifier", UNFIT_IDS)
@pytest.mark.parametrize("provider", ["github", "standard-webhooks", "stripe"])
def test_an_id_that_no_header_can_carry_is_refused(provider: str, identifier: Any) -> None:
    with pytest.raises(UsageError, match="id must be"):
        delivered(provider, id=identifier)


@pytest.mark.parametrize("identifier", ["a b", "a.1", "x" * 257])
def test_an_id_that_verify_would_refuse_is_not_signed(identifier: str) -> None:
    with pytest.raises(UsageError, match="id must be"):
        delivered("standard-webhooks", id=identifier)


def test_twilio_puts_the_digest_of_a_json_body_into_the_url() -> None:
    body, kind = b'{"id":"EZ1"}', {"Content-Type": "application/json"}
    signed = delivered("twilio", body, headers=kind)
    assert signed.url == f"{URL}&bodySHA256={hashlib.sha256(body).hexdigest()}"
    assert verified(source("twilio"), signed).json == {"id": "EZ1"}
    plain = delivered("twilio", body, headers=kind, url="https://example.com/hook")
    assert (plain.url or "").startswith("https://example.com/hook?bodySHA256=")
    for changed in ({"body": b'{"id":"EZ2"}'}, {"url": URL}):
        with pytest.raises(Rejected):
            verified(source("twilio"), signed, **changed)
    assert delivered("twilio").url == URL


def test_adyen_signs_inside_the_body() -> None:
    signed = delivered("adyen")
    assert "HmacSignature" not in signed.headers
    item = json.loads(signed.body)["notificationItems"][0]["NotificationRequestItem"]
    content = "p_1::Shop:order-1:2000:EUR:AUTHORISATION:true"
    key = bytes.fromhex(keys("adyen").sender)
    expected = base64.b64encode(hmac.new(key, content.encode(), "sha256").digest()).decode()
    assert item["additionalData"]["hmacSignature"] == expected


def test_providers_that_sign_the_url_ask_for_it() -> None:
    for provider in ("square", "twilio", "hubspot"):
        with pytest.raises(UsageError, match="url"):
            duly.sign(provider, b"{}", "s")


def test_a_signed_delivery_is_ready_to_be_sent() -> None:
    signed = delivered("stripe", method="PUT")
    assert isinstance(signed, Signed)
    assert (signed.url, signed.method) == (URL, "PUT")
    assert signed.headers["Content-Type"] == "application/json"
    assert delivered("twilio").headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert all(isinstance(value, str) for value in signed.headers.values())


def test_now_may_be_a_moment_or_seconds() -> None:
    moment = datetime.fromtimestamp(NOW, UTC)
    assert delivered("stripe", now=moment) == delivered("stripe", now=NOW + 0.9)


def test_a_token_in_the_url_is_for_the_caller_to_write() -> None:
    where = Provider("own", SharedToken(place="query:token"))
    with pytest.raises(UsageError, match="write it there"):
        duly.sign(where, b"{}", "secret", url=URL)


def test_a_users_own_provider_signs_in_five_lines() -> None:
    acme = Provider(
        "acme",
        scheme=Hmac(header="Acme-Signature", signed="{timestamp}.{body}", timestamp="Acme-Time"),
        id="body:event",
    )
    signed = duly.sign(acme, b'{"event":"e-1"}', "secret", now=NOW)
    found = duly.verify(acme, signed.headers, signed.body, "secret", now=NOW)
    assert (found.id, found.id_kind, found.sent) == ("e-1", "signed", NOW)
