"""Ways in which somebody tried to pass for a sender, or a copy for a new event; each is closed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import duly
from duly import Provider, Source
from duly.errors import Rejected, UsageError
from duly.webhooks import (
    BasicAuth,
    Handshake,
    Hmac,
    Jwt,
    Keyset,
    Limits,
    Mac,
    SharedToken,
    StandardWebhooks,
    answer_handshake,
)
from tests.webhooks.genuine import NOW

ADYEN = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
PUBLIC = Ed25519PrivateKey.from_private_bytes(b"\xcd" * 32).public_key()
SPKI = PublicFormat.SubjectPublicKeyInfo


@pytest.mark.parametrize(
    "key",
    [
        PUBLIC.public_bytes(Encoding.DER, SPKI),
        base64.b64encode(PUBLIC.public_bytes(Encoding.DER, SPKI)).decode(),
        PUBLIC.public_bytes(Encoding.Raw, PublicFormat.Raw).hex(),
    ],
)
def test_a_public_key_is_never_a_shared_secret(key: str | bytes) -> None:
    with pytest.raises(UsageError):
        source = Source("standard-webhooks", key)
        duly.sign(source, b"{}", now=NOW)


def test_a_public_key_in_a_file_is_one_of_v1a() -> None:
    pem = PUBLIC.public_bytes(Encoding.PEM, SPKI)
    content = b"msg_1.%d.{}" % NOW
    forged = base64.b64encode(hmac.digest(pem, content, "sha256")).decode()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(NOW),
        "webhook-signature": f"v1,{forged}",
    }
    with pytest.raises(Rejected):
        duly.verify("standard-webhooks", headers, b"{}", pem, now=NOW)


@pytest.mark.parametrize("secret", [":", "user:"])
def test_a_secret_of_nothing_is_refused(secret: str) -> None:
    with pytest.raises(UsageError):
        Source(Provider("own", BasicAuth()), secret)


def test_a_key_under_which_everything_is_signed_is_refused() -> None:
    with pytest.raises(UsageError):
        Source("discord", "00" * 32)


def test_a_short_rsa_key_is_refused_in_any_form() -> None:
    key = rsa.generate_private_key(65537, 1024).public_key()
    own = Provider("own", Jwt(header="X-Token", algorithms=("RS256",)))
    with pytest.raises(UsageError):
        Source(own, key.public_bytes(Encoding.PEM, SPKI))


def test_a_message_that_somebody_wrote_does_not_vouch_for_a_body() -> None:
    evil = b'{"id":"evil"}'
    text = f"&bodySHA256={hashlib.sha256(evil).hexdigest()}&x="
    url, fields = (
        "https://shop.example/sms?tenant=1",
        {"AccountSid": "AC1", "Body": text, "From": "1"},
    )
    content = url + "".join(name + fields[name] for name in sorted(fields))
    headers = {
        "X-Twilio-Signature": base64.b64encode(
            hmac.digest(b"token", content.encode(), "sha1")
        ).decode()
    }
    with pytest.raises(Rejected):
        duly.verify("twilio", headers, evil, "token", url=content, now=NOW)


def test_a_signature_over_a_request_is_none_over_its_text() -> None:
    url, body = "https://shop.example/hubspot", b'[{"eventId":1}]'
    content = b"POST" + url.encode() + body
    headers = {
        "X-HubSpot-Signature": hashlib.sha256(b"secret" + content).hexdigest(),
        "X-HubSpot-Signature-Version": "v2",
    }
    duly.verify("hubspot", headers, body, "secret", url=url)
    with pytest.raises(Rejected):
        turned = headers | {"X-HubSpot-Signature-Version": "v1"}
        duly.verify("hubspot", turned, content, "secret", url=url)


def test_a_header_cannot_borrow_from_the_body_behind_it() -> None:
    own = Provider("own", Hmac(header="X-Sum", signed="{header:X-Id}.{body}"), id="header:X-Id")
    sent = duly.sign(own, b'{"email":"a@b.com"}', "secret", id="evt_1", headers={"X-Id": "evt_1"})
    assert duly.verify(own, sent.headers, sent.body, "secret").id_kind == "signed"
    moved = sent.headers | {"X-Id": 'evt_1.{"email":"a@b'}
    with pytest.raises(Rejected):
        duly.verify(own, moved, b'com"}', "secret")


@pytest.mark.parametrize("token", ["42", "id=evil", "true", "null", "1e5", "-1"])
def test_what_could_be_an_event_is_not_signed_for_whoever_asks(token: str) -> None:
    asked = Handshake(
        when={"query:crc": None}, reply={"a": Mac("query:crc")}, signed=False, method="GET"
    )
    source = Source(Provider("own", Hmac(header="X-Sum"), handshakes=(asked,)), "secret")
    assert answer_handshake(source, {}, url=f"https://shop.example/?crc={token}") is None


def notification(**more: Any) -> bytes:
    item = {
        "pspReference": "p1", "merchantAccountCode": "Shop", "merchantReference": "o1",
        "amount": {"value": 1, "currency": "EUR"}, "eventCode": "AUTHORISATION", "success": "true",
        **more,
    }  # fmt: skip
    signed = duly.sign("adyen", json.dumps({"notificationItems": [
        {"NotificationRequestItem": item}]}).encode(), ADYEN)  # fmt: skip
    return signed.body


def test_junk_that_nobody_signed_makes_no_new_id() -> None:
    original = duly.verify("adyen", {}, notification(), ADYEN)
    one = '{"a":[{"pspReference":1,"pspReference":2}],"a":1}'
    junk = '{"junk":[' + ",".join([one] * 200) + '],"notificationItems"'
    body = notification().replace(b'{"notificationItems"', junk.encode())
    for _ in range(20):
        assert duly.verify("adyen", {}, body, ADYEN).id == original.id


def test_a_body_too_odd_to_be_read_again_is_not_an_event_of_its_own() -> None:
    body = notification(junk="x" * 2000)
    source = Source("adyen", ADYEN, limits=Limits(size=1000))
    with pytest.raises(Rejected):
        duly.verify(source, {}, body)


def test_one_item_sent_twice_in_a_delivery_is_refused() -> None:
    item = json.loads(notification())["notificationItems"][0]
    with pytest.raises(Rejected):
        duly.verify("adyen", {}, json.dumps({"notificationItems": [item, item]}).encode(), ADYEN)


def test_the_states_of_one_transfer_are_several_events() -> None:
    ids = set()
    for status in ("authorised", "booked"):
        body = json.dumps({"type": "transfer.updated", "data": {"id": "1", "status": status}})
        raw = body.encode()
        key = bytes.fromhex(ADYEN)
        headers = {"HmacSignature": base64.b64encode(hmac.digest(key, raw, "sha256")).decode()}
        ids.add(duly.verify("adyen", headers, raw, ADYEN).id)
    assert len(ids) == 2


def test_no_header_that_may_show_a_secret_is_kept() -> None:
    secret = "whsec_" + base64.b64encode(bytes(32)).decode()
    sent = duly.sign("gitlab", b"{}", secret, now=NOW, headers={"X-Gitlab-Token": "hunter2"})
    kept = duly.verify("gitlab", sent.headers, sent.body, secret, now=NOW).headers
    assert "hunter2" not in kept.values()
    token = Provider("own", SharedToken(place="header:X-Token"))
    kept = duly.verify(token, {"X-Token": "hunter2", "X-Other": "1"}, b"{}", "hunter2").headers
    assert kept == {"x-other": "1"}


def test_a_foreign_key_in_a_document_stops_nothing() -> None:
    good = base64.urlsafe_b64encode(PUBLIC.public_bytes(Encoding.Raw, PublicFormat.Raw))
    listed = [
        {"kty": "OKP", "crv": "X25519", "kid": "a", "x": "AAAA"},
        {"kty": "RSA", "kid": "b", "n": "AQAB", "e": "AQAB"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "k" * 300, "x": good.rstrip(b"=").decode()},
    ]
    keyset = Keyset(Provider("own", StandardWebhooks()), lambda: {"keys": listed})
    private = "whsk_" + base64.b64encode(b"\xcd" * 32).decode()
    sent = duly.sign("standard-webhooks", b"{}", private, now=NOW)
    assert keyset.verify(sent.headers, sent.body, now=NOW).secret.startswith("kkk")


def test_many_copies_of_a_header_cost_little() -> None:
    with pytest.raises(Rejected):
        duly.verify("github", [("X-Hub-Signature-256", "a")] * 100_000, b"", "secret")
