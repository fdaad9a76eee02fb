"""Questions of a provider are answered, but only to whoever can sign them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import duly
from duly import Provider, Source
from duly.errors import Rejected, UsageError
from duly.webhooks import Code, Echo, Handshake, HandshakeReply, Hmac, Mac, answer_handshake
from tests.webhooks.genuine import NOW, PROVIDERS, delivered, keys, source, verified

SLACK = b'{"token":"t","challenge":"3eZbrw1aB10F","type":"url_verification"}'
ZOOM = (
    b'{"event":"endpoint.url_validation","event_ts":1767225600000,'
    b'"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}'
)
PING = b'{"id":"1","application_id":"2","type":1,"token":"t","version":1}'
EVENT_PING = b'{"version":1,"application_id":"2","type":0}'
QUESTIONS = [("slack", SLACK), ("zoom", ZOOM), ("discord", PING), ("discord", EVENT_PING)]


def asked(provider: str, body: bytes, **options: Any) -> HandshakeReply | None:
    """The answer to a question that the provider has signed."""
    return verified(source(provider, **options), delivered(provider, body)).handshake


def test_slack_gets_its_challenge_back() -> None:
    reply = asked("slack", SLACK)
    assert reply is not None
    assert (reply.status, reply.content_type) == (200, "application/json")
    assert json.loads(reply.body) == {"challenge": "3eZbrw1aB10F"}


def test_zoom_gets_the_hmac_of_its_token_under_the_secret_that_signed_it() -> None:
    secrets = {name: keys("zoom", name).receiver for name in ("old", "new")}
    for name, secret in secrets.items():
        signed = delivered("zoom", ZOOM, seed=name)
        reply = verified(Source("zoom", secrets), signed).handshake
        assert reply is not None
        expected = hmac.new(secret.encode(), b"qgg8vlvZRS6UYooatFL8Aw", hashlib.sha256)
        assert json.loads(reply.body) == {
            "plainToken": "qgg8vlvZRS6UYooatFL8Aw",
            "encryptedToken": expected.hexdigest(),
        }
        assert reply.status == 200


@pytest.mark.parametrize(
    "token",
    ['v0:1767225600:{"event":"forged"}', "a b", "a:b", "{}", '"', "", "x" * 257, "a\nb", "a\n",
     "caf\u00e9", 5, 1.5, None, True, ["a"], {"a": "b"}],
)  # fmt: skip
def test_zooms_question_never_signs_what_could_be_an_event(token: object) -> None:
    body = json.dumps({"event": "endpoint.url_validation", "payload": {"plainToken": token}})
    assert asked("zoom", body.encode()) is None


def test_discord_is_answered_for_both_kinds_of_ping() -> None:
    reply = asked("discord", PING)
    assert reply is not None
    assert (reply.status, json.loads(reply.body)) == (200, {"type": 1})
    assert asked("discord", EVENT_PING) == HandshakeReply(204, b"", None)


@pytest.mark.parametrize(
    "body",
    [
        b'{"version":1,"application_id":"1","type":1,"event":{"type":"APPLICATION_AUTHORIZED"}}',
        b'{"version":1,"application_id":"1","type":1,"event":{}}',
        b'{"version":1,"application_id":"1","type":1,"event":null}',
        b'{"version":1,"application_id":"1","type":0,"event":{"type":"ENTITLEMENT_CREATE"}}',
        b'{"id":"1","type":2,"data":{}}',
        b'{"id":"1","type":"1"}',
        b'{"id":"1","type":true}',
        b'{"id":"1","type":false}',
        b'{"id":"1","type":1,"type":1}',
        b'{"id":"1"}',
        b"[1]",
        b"",
    ],
)
def test_an_event_of_discords_is_no_ping(body: bytes) -> None:
    assert asked("discord", body) is None


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_ordinary_event_is_no_question(provider: str) -> None:
    assert verified(source(provider), delivered(provider)).handshake is None


@pytest.mark.parametrize(("provider", "body"), QUESTIONS)
def test_a_question_that_is_not_signed_gets_no_answer(provider: str, body: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        duly.verify(source(provider), {"Content-Type": "application/json"}, body, now=NOW)
    assert caught.value.code is Code.MISSING_SIGNATURE


@pytest.mark.parametrize(("provider", "body"), QUESTIONS)
def test_a_question_signed_by_another_gets_no_answer(provider: str, body: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        verified(source(provider), delivered(provider, body, seed="another"))
    assert caught.value.code is Code.BAD_SIGNATURE
    with pytest.raises(Rejected) as caught:
        verified(source(provider), delivered(provider), body=body)
    assert caught.value.status == (401 if provider == "discord" else 403)


@pytest.mark.parametrize(("provider", "body"), QUESTIONS)
def test_an_old_question_gets_no_answer(provider: str, body: bytes) -> None:
    signed = delivered(provider, body)
    with pytest.raises(Rejected) as caught:
        verified(source(provider), signed, now=NOW + 86400)
    assert caught.value.code is Code.STALE_TIMESTAMP


@pytest.mark.parametrize(("provider", "body"), QUESTIONS)
def test_a_strict_source_still_answers(provider: str, body: bytes) -> None:
    assert asked(provider, body, missing_id="reject") == asked(provider, body)
    assert asked(provider, body, parse="require") is not None


@pytest.mark.parametrize(
    "body",
    [b'{"type":"url_verification"}', b'{"type":"url_verification","challenge":""}',
     b'{"type":"url_verification","challenge":{"a":1}}',
     b'{"type":"other","challenge":"a"}', b"url_verification"],
)  # fmt: skip
def test_a_question_without_its_challenge_is_not_answered(body: bytes) -> None:
    assert asked("slack", body) is None


OWN = Provider(
    "own",
    Hmac(header="X-Sum"),
    handshakes=(
        Handshake(when={"header:X-Hook": "hello"}, reply=Echo("header:X-Challenge"), status=201),
        Handshake(when={"query:prove": None}, reply=Mac("query:prove", encoding="base64")),
        Handshake(when={"body:ping": None}, unless="body:data"),
        Handshake(when={"header:X-Hook": "get"}, reply={"ok": True}, method="GET"),
        Handshake(when={"header:X-Hook": "open"}, reply={"ok": True}, signed=False),
    ),
)


def own(
    body: bytes = b"{}", *, headers: dict[str, str] | None = None, **options: Any
) -> HandshakeReply | None:
    signed = duly.sign(OWN, body, "secret", now=NOW, headers=headers, **options)
    told: dict[str, Any] = {"now": NOW, "url": signed.url, "method": signed.method}
    return duly.verify(OWN, signed.headers, signed.body, "secret", **told).handshake


def test_a_users_own_question_is_answered_with_text() -> None:
    headers = {"X-Hook": "hello", "X-Challenge": "abc 123"}
    assert own(headers=headers) == HandshakeReply(201, b"abc 123", "text/plain")
    assert own(headers={"X-Hook": "hello"}) is None


def test_a_users_own_question_is_answered_with_a_mac() -> None:
    reply = own(url="https://example.com/hook?prove=token")
    expected = hmac.new(b"secret", b"token", hashlib.sha256).digest()
    assert reply is not None
    assert reply.content_type == "text/plain"
    assert reply.body == base64.b64encode(expected)


def test_a_users_own_question_is_answered_with_nothing() -> None:
    assert own(b'{"ping":1}') == HandshakeReply(200)
    assert own(b'{"ping":1,"data":{}}') is None


def test_a_question_has_its_method() -> None:
    assert own(headers={"X-Hook": "get"}) is None
    reply = own(headers={"X-Hook": "get"}, method="get")
    assert reply is not None
    assert json.loads(reply.body) == {"ok": True}


def test_a_question_that_is_never_signed_is_not_answered_by_verify() -> None:
    assert own(headers={"X-Hook": "open"}) is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"when": {}}, "must say when"),
        ({"when": {"nowhere": 1}}, "a selector must be"),
        ({"when": {"body:a": 1}, "unless": "nowhere"}, "a selector must be"),
    ],
)
def test_a_handshake_that_cannot_work_is_refused(arguments: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Handshake(**arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"place": "nowhere"}, "a selector must be"),
        ({"place": "body:a", "digest": "crc32"}, "digest must be"),
        ({"place": "body:a", "encoding": "morse"}, "encoding must be"),
    ],
)
def test_a_mac_that_cannot_work_is_refused(arguments: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Mac(**arguments)


def test_a_question_without_a_signature_is_answered_by_greeted_alone() -> None:
    challenge = Handshake(
        when={"query:hub.mode": "subscribe", "query:hub.verify_token": "ours"},
        reply=Echo("query:hub.challenge"),
        signed=False,
        method="GET",
    )
    where = Source(Provider("asking", Hmac(header="X-Sum"), handshakes=(challenge,)), "secret")
    asked = "https://example.com/in?hub.mode=subscribe&hub.challenge=4711&hub.verify_token="
    assert answer_handshake(where, {}, url=asked + "ours") == HandshakeReply(
        200, b"4711", "text/plain"
    )
    assert answer_handshake(where, {}, url=asked + "theirs") is None
    assert answer_handshake(where, {}, url=asked + "ours", method="POST") is None
    with pytest.raises(Rejected):
        duly.verify(where, {}, b"", url=asked + "ours", method="GET")


def test_an_unsigned_question_has_only_plain_tokens_signed() -> None:
    challenge = Handshake(
        when={"query:crc_token": None},
        reply={"response_token": Mac("query:crc_token", encoding="base64", prefix="sha256=")},
        signed=False,
        method="GET",
    )
    where = Source(Provider("asking", Hmac(header="X-Sum"), handshakes=(challenge,)), "secret")
    answer = answer_handshake(where, {}, url="https://example.com/in?crc_token=abc")
    expected = base64.b64encode(hmac.digest(b"secret", b"abc", "sha256")).decode()
    assert answer is not None
    assert json.loads(answer.body) == {"response_token": f"sha256={expected}"}
    for token in ("%7B%22id%22%3A1%7D", "1767225600.%7B%7D", "v0%3A1%3Ax"):
        assert answer_handshake(where, {}, url=f"https://example.com/in?crc_token={token}") is None


def test_a_signed_question_is_never_answered_without_its_signature() -> None:
    where = Source("zoom", "secret")
    asked = b'{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}'
    assert answer_handshake(where, {}, asked, method="POST") is None


def test_an_unsigned_question_is_not_answered_with_a_secret_that_has_ended() -> None:
    asked = Handshake(
        when={"query:crc": None}, reply={"a": Mac("query:crc")}, signed=False, method="GET"
    )
    ended = duly.Secret("secret", not_after=datetime.fromtimestamp(NOW, UTC))
    where = Source(Provider("asking", Hmac(header="X-Sum"), handshakes=(asked,)), ended)
    url = "https://example.com/in?crc=abc"
    assert answer_handshake(where, {}, url=url, now=NOW) is not None
    assert answer_handshake(where, {}, url=url, now=NOW + 1) is None


def test_a_question_with_a_key_twice_is_an_event_whose_body_is_unreadable() -> None:
    twice = b'{"event":"endpoint.url_validation","payload":1,"payload":{"plainToken":"abc"}}'
    found = verified(source("zoom"), delivered("zoom", twice))
    assert (found.handshake, found.json, found.event.json) == (None, None, None)
    assert found.unreadable == "it holds the key 'payload' more than once in one object"
    with pytest.raises(Rejected) as refused:
        verified(source("zoom", parse="require"), delivered("zoom", twice))
    assert refused.value.code is Code.MALFORMED
