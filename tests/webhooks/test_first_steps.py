"""Mistakes of the first hour: each is refused where it is made, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import Provider, Secret, Source
from duly.errors import UsageError
from duly.webhooks import Hmac, NamedFields
from tests.webhooks.genuine import NOW

URL = "https://shop.example/sms"
SUM = Hmac(header="X-Sum")


@pytest.mark.parametrize("place", ["body:a+body:b", "body:a[0].b", "body:a|body:b", "header:X: Y"])
def test_a_place_that_could_never_be_found_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="spaces around"):
        Provider("own", SUM, id=place)


@pytest.mark.parametrize("spoiled", [{"header": "header:X"}, {"header": ""}, {"header": 5}])
def test_a_header_is_a_bare_name(spoiled: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="bare name of a header"):
        Hmac(**spoiled)
    with pytest.raises(UsageError, match="bare name of a header"):
        Hmac(header="X", signed="{timestamp}.{body}", timestamp="header:X-Time")


@pytest.mark.parametrize("fields", ["v1", {"signature": "v1"}])
def test_fields_are_named_fields(fields: Any) -> None:
    with pytest.raises(UsageError, match="fields must be NamedFields"):
        Hmac(header="X", fields=fields)


def test_a_time_is_in_one_place() -> None:
    fields = NamedFields(signature="v1", timestamp="t")
    with pytest.raises(UsageError, match="one place"):
        Hmac(header="X", signed="{timestamp}{body}", fields=fields, timestamp="X-Time")


def test_a_secret_has_one_name() -> None:
    with pytest.raises(UsageError, match="one name"):
        Source("github", {"a": Secret("x", name="b")})


@pytest.mark.parametrize(("provider", "key"), [("discord", "cd" * 32)])
def test_a_source_that_holds_a_public_key_does_not_sign(provider: str, key: str) -> None:
    with pytest.raises(UsageError, match="public key, which cannot sign"):
        duly.sign(Source(provider, key), b"{}")


def test_a_secret_in_the_place_of_a_provider_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        duly.verify("whsec_canary", {}, b"", "stripe")
    assert "canary" not in str(caught.value)


def test_explain_tries_the_url_of_the_source_when_another_was_passed() -> None:
    source = Source("twilio", "token", url=URL)
    sent = duly.sign(source, b"MessageSid=SM1&MessageStatus=sent", now=NOW)
    told = duly.explain(source, sent.headers, sent.body, now=NOW, url="http://10.0.0.3:8000/sms")
    assert URL in told


def test_a_time_in_milliseconds_is_told() -> None:
    with pytest.raises(UsageError, match="milliseconds"):
        duly.verify("github", {}, b"", "x", now=1_767_225_600_000)


def test_a_document_of_keys_is_sent_to_the_keyset() -> None:
    with pytest.raises(UsageError, match="Keyset"):
        Source("standard-webhooks", {"keys": [{"kty": "OKP"}]})
