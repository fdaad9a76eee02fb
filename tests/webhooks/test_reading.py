"""A genuine body is read strictly or not at all, and never with an exception."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

import pytest

import duly
from duly.errors import Rejected
from duly.webhooks import Code, Limits
from tests.support.growth import LINEAR, growth
from tests.webhooks.genuine import NOW, delivered, source, verified

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.types import VerifiedDelivery

FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
CAP = 100
SIZE = 200
DIGITS = 30
NARROW = Limits(size=SIZE, digits=DIGITS)


def read(body: bytes, provider: str = "github", **options: Any) -> VerifiedDelivery:
    """A genuine delivery of this body."""
    return verified(source(provider, **options), delivered(provider, body, id="msg-1"))


def nested(depth: int, *, inner: bytes = b"1") -> bytes:
    """Arrays and objects in turn, this deep."""
    opening = [b"[" if level % 2 else b'{"a":' for level in range(depth)]
    closing = [b"]" if level % 2 else b"}" for level in range(depth)]
    return b"".join(opening) + inner + b"".join(reversed(closing))


SOUND: list[bytes] = [
    b"{}",
    b"[]",
    b'"text"',
    b"0",
    b"false",
    b' \r\n\t{"a": 1}\n',
    b"\xef\xbb\xbf" + b'{"a":"after a byte order mark"}',
    b"[" * CAP + b"]" * CAP,
    b'{"a":' * CAP + b"1" + b"}" * CAP,
    nested(CAP),
    b"[" + b",".join([nested(CAP - 1)] * 3) + b"]",
    json.dumps({"a": "[{" * 500, "b": '\\"[[[' * 200, "[" * 200: "]}"}).encode(),
    b"[" + b"[]," * 500 + b"[]]",
    b'"\\ud83d\\ude00 is a proper pair"',
    '"\N{GRINNING FACE}"'.encode(),
    b'"\\u0000"',
    b"9" * 400,
    b"1." + b"1" * 398,
    b"1e308",
    b'{"other":1,"other":2}',
]


@pytest.mark.parametrize("body", SOUND, ids=lambda body: repr(body[:24]))
def test_sound_json_is_read_as_it_is(body: bytes) -> None:
    found = read(body)
    assert found.unreadable is None
    assert found.json == json.loads(body.removeprefix(b"\xef\xbb\xbf"))
    assert read(body, parse="require").json == found.json


ODD: list[tuple[bytes, str]] = [
    (b"[" * (CAP + 1) + b"]" * (CAP + 1), "deeper than 100"),
    (b'{"a":' * (CAP + 1) + b"1" + b"}" * (CAP + 1), "deeper than 100"),
    (nested(CAP + 1), "deeper than 100"),
    (nested(CAP, inner=b'["[]"]'), "deeper than 100"),
    (b"[" * 100_000 + b"]" * 100_000, "deeper than 100"),
    (b"[" * 100_000, "deeper than 100|not JSON"),
    (b'{"a":' * 100_000, "deeper than 100|not JSON"),
    (b"9" * 401, "more than 400 digits"),
    (b'{"a":[1,' + b"9" * 5000 + b"]}", "more than 400 digits"),
    (b"NaN", "NaN"),
    (b'{"a":[NaN]}', "NaN"),
    (b"Infinity", "Infinity"),
    (b"[-Infinity]", "-Infinity"),
    (b"1e400", "no computer number"),
    (b"[-1e400]", "no computer number"),
    (b'{"a":"\xff"}', "not UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
    (b'{"a":"\xc0\xaf"}', "not UTF-8"),
    ('{"a":1}'.encode("utf-16"), "not UTF-8"),
    ('{"a":1}'.encode("utf-16-be"), "not JSON"),
    (b"\xef\xbb\xbf\xef\xbb\xbf{}", "not JSON"),
    (b"\xef\xbb\xbf", "not JSON"),
    (b'"\\ud800"', "half a surrogate pair"),
    (b'{"\\udc00":1}', "half a surrogate pair"),
    (b'["\\ude00\\ud83d"]', "half a surrogate pair"),
    (b"", "not JSON"),
    (b"   ", "not JSON"),
    (b'{"a":1}x', "not JSON"),
    (b'{"a":1}{"a":1}', "not JSON"),
    (b"{'a':1}", "not JSON"),
    (b'{"a":1,}', "not JSON"),
    (b'{"a":01}', "not JSON"),
    (b'{"a":1_0}', "not JSON"),
    (b'"line\nbreak"', "not JSON"),
    (b"\x00", "not JSON"),
    (b"<xml/>", "not JSON"),
]


@pytest.mark.parametrize(("body", "why"), ODD, ids=lambda one: repr(one[:24]))
def test_an_odd_body_is_an_event_without_json(body: bytes, why: str) -> None:
    found = read(body)
    assert found.json is None
    assert re.search(why, found.unreadable or "")
    assert found.body == body
    assert found.events[0].json is None
    assert (found.id, found.id_kind) == ("msg-1", "unsigned")


@pytest.mark.parametrize(("body", "why"), ODD, ids=lambda one: repr(one[:24]))
def test_an_odd_body_is_malformed_where_a_sound_one_is_required(body: bytes, why: str) -> None:
    with pytest.raises(Rejected, match=why) as caught:
        read(body, parse="require")
    assert (caught.value.code, caught.value.status) == (Code.MALFORMED, 400)


def test_a_null_body_is_no_event_where_one_is_required() -> None:
    assert read(b"null").unreadable is None
    with pytest.raises(Rejected) as caught:
        read(b"null", parse="require")
    assert caught.value.code is Code.MALFORMED


@pytest.mark.parametrize("provider", ["stripe", "slack", "sendgrid", "hubspot", "discord", "zoom"])
@pytest.mark.parametrize("body", [body for body, _ in ODD], ids=lambda body: repr(body[:24]))
def test_an_odd_body_has_its_digest_for_an_id_where_the_id_was_in_it(
    provider: str, body: bytes
) -> None:
    found = read(body, provider)
    assert (found.json, found.id_kind, found.type) == (None, "body", None)
    assert found.id == "body_" + found.fingerprint.hex()


# What a reader is tempted to do faster where nothing looks suspicious.
SURROUNDINGS = {
    "plainly": b'{"id":"a","found":%b}',
    "with an escape": b'{"id":"a","other":"\\u0041","found":%b}',
    "with a key twice": b'{"id":"a","other":"\\u0041","other":2,"found":%b}',
    "with many digits": b'{"id":"a","other":"' + b"0" * 500 + b'","found":%b}',
    "with both": b'{"id":"a","other":"' + b"0" * 500 + b'","other":"\\u0041","found":%b}',
}
VALUES: list[tuple[bytes, bool]] = [
    (b"NaN", False),
    (b"[-Infinity]", False),
    (b"1e400", False),
    (b"9" * 400, True),
    (b"9" * 401, False),
    (b"-1.5e-7", True),
    (b'"\\ud800"', False),
    (b'"\\ud83d\\ude00"', True),
    (b"[" * 99 + b"]" * 99, True),
    (b"[" * 100 + b"]" * 100, False),
    (b'"\xff"', False),
    (b'{"a":"\\u0061","b":[{"c":null}]}', True),
]


@pytest.mark.parametrize("surrounding", SURROUNDINGS)
@pytest.mark.parametrize(("value", "sound"), VALUES, ids=lambda one: repr(one)[:24])
def test_a_body_is_read_as_strictly_whatever_else_is_in_it(
    value: bytes, sound: bool, surrounding: str
) -> None:
    body = SURROUNDINGS[surrounding] % value
    found = read(body, "stripe")
    assert (found.unreadable is None) == sound
    assert found.json == (json.loads(body) if sound else None)
    assert found.id_kind == ("signed" if sound else "body")


def test_the_caps_are_the_users_to_move() -> None:
    assert read(b'"%s"' % (b"x" * (SIZE - 2)), limits=NARROW).unreadable is None
    assert "larger than 200 bytes" in (
        read(b'"%s"' % (b"x" * (SIZE - 1)), limits=NARROW).unreadable or ""
    )
    assert read(b"9" * DIGITS, limits=NARROW).json == 10**DIGITS - 1
    assert "30 digits" in (read(b"9" * (DIGITS + 1), limits=NARROW).unreadable or "")
    assert read(nested(3), limits=Limits(depth=3)).unreadable is None
    assert "deeper than 3" in (read(nested(4), limits=Limits(depth=3)).unreadable or "")


def test_a_byte_order_mark_stays_in_the_body_and_its_fingerprint() -> None:
    found = read(b"\xef\xbb\xbf" + b'{"id":"evt_1"}', "stripe")
    assert found.id == "evt_1"
    assert found.body.startswith(b"\xef\xbb\xbf")


AMBIGUOUS = [
    b'{"id":"evt_1","id":"evt_2"}',
    b'{"id":"evt_1","other":1,"id":"evt_1"}',
    b'{"id":"evt_1","\\u0069d":"evt_2"}',
]


@pytest.mark.parametrize("body", AMBIGUOUS)
def test_an_id_that_is_told_twice_is_no_id(body: bytes) -> None:
    found = read(body, "stripe")
    assert (found.id, found.id_kind) == ("body_" + found.fingerprint.hex(), "body")
    assert found.json is None
    assert found.unreadable
    with pytest.raises(Rejected) as caught:
        read(body, "stripe", parse="require")
    assert caught.value.code is Code.MALFORMED


def test_a_key_twice_elsewhere_leaves_the_id_alone() -> None:
    found = read(b'{"id":"evt_1","type":"a","data":{"id":1,"id":2},"data":{"id":3}}', "stripe")
    assert (found.id, found.id_kind, found.type) == ("evt_1", "signed", "a")
    assert found.json["data"] == {"id": 3}


def test_an_object_twice_on_the_way_to_the_id_hides_it() -> None:
    body = (
        b'{"event":"meeting.started","event_ts":1,'
        b'"payload":{"object":{"uuid":"a"}},"payload":{"object":{"uuid":"b"}}}'
    )
    assert read(body, "zoom").id_kind == "body"


def test_githubs_form_holds_its_json_in_one_field() -> None:
    body = urlencode({"payload": '{"action":"opened"}'}).encode()
    found = verified(source("github"), delivered("github", body, type="issues", headers=FORM))
    assert (found.json, found.unreadable) == ({"action": "opened"}, None)
    assert found.type == "issues.opened"
    assert found.form == [("payload", '{"action":"opened"}')]


@pytest.mark.parametrize("body", [b"payload={}&payload={}", b"other={}", b"payload=x", b"a"])
def test_a_form_without_its_one_field_has_no_json(body: bytes) -> None:
    found = verified(source("github"), delivered("github", body, headers=FORM))
    assert found.json is None
    assert len(found.form) == body.count(b"=") or body == b"a"


@pytest.mark.parametrize("body", [b"", b"payload=%ff", b"payload=\xff", b"payload=x"])
def test_what_only_calls_itself_a_form_is_malformed_where_it_must_be_sound(body: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        verified(source("github", parse="require"), delivered("github", body, headers=FORM))
    assert caught.value.code is Code.MALFORMED


def test_a_sender_of_forms_can_be_read_strictly() -> None:
    found = verified(source("twilio", parse="require"), delivered("twilio"))
    assert (dict(found.form)["To"], found.json, found.unreadable) == ("+15550100", None, None)


def test_slacks_interactions_and_commands_are_read() -> None:
    asked = json.dumps({"type": "block_actions", "trigger_id": "13345224609.8534564800"})
    body = f"payload={quote_plus(asked)}".encode()
    found = verified(source("slack"), delivered("slack", body, headers=FORM))
    assert (found.id, found.type) == ("13345224609.8534564800", "block_actions")
    assert found.json == json.loads(asked)
    command = urlencode({"command": "/weather", "text": "94070", "trigger_id": "1.2"}).encode()
    found = verified(source("slack"), delivered("slack", command, headers=FORM))
    assert (found.id, found.id_kind, found.type) == ("1.2", "signed", "/weather")
    assert dict(found.form)["text"] == "94070"


def test_a_form_of_other_bytes_or_too_many_fields_is_none() -> None:
    for body in (b"a=%ff", "a=\N{SNOWMAN}".encode(), b"&".join([b"a=1"] * 1001)):
        assert verified(source("github"), delivered("github", body, headers=FORM)).form == []
    assert verified(source("stripe"), delivered("stripe", b"a=1", headers=FORM)).form == []


# Each of a size, and a size that would show more than a linear cost.
UNSIGNED_TRAPS: dict[str, tuple[Callable[[int], bytes], int]] = {
    "a string that never ends": (
        lambda size: b'{"hmacSignature":' + b"[" * 200 + b'"' + b'\\"' * size,
        15_000,
    ),
    "one that ends in a backslash": (
        lambda size: b'{"hmacSignature":' + b"[" * 200 + b'"' + b'\\"' * size + b"\\",
        15_000,
    ),
    "many keys, one twice": (
        lambda size: (
            b'{"hmacSignature":1,%s,"0":1}' % b",".join(b'"%d":0' % key for key in range(size))
        ),
        15_000,
    ),
    "many objects with a key twice": (
        lambda size: (
            b'{"notificationItems":[{"NotificationRequestItem":'
            b'{"additionalData":{"hmacSignature":"x"}}},%s]}' % b",".join([b'{"a":1,"a":2}'] * size)
        ),
        8_000,
    ),
    "deep": (lambda size: b'{"hmacSignature":' + b"[" * size + b"]" * size, 100_000),
    "brackets that never match": (lambda size: b'{"hmacSignature":' + b"[}" * size, 250_000),
}


@pytest.mark.parametrize("trap", UNSIGNED_TRAPS)
def test_a_body_that_must_be_read_before_it_is_trusted_costs_little(trap: str) -> None:
    made, size = UNSIGNED_TRAPS[trap]

    def refused(body: bytes) -> None:
        with pytest.raises(Rejected):
            duly.verify(source("adyen"), {}, body, now=NOW)

    assert growth(made, refused, size) < LINEAR
