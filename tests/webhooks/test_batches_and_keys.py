"""Several events in one delivery, and several values in one key: no two of them ever meet."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import duly
from duly import Provider
from duly.errors import Rejected
from duly.webhooks import Hmac
from tests.webhooks.genuine import NOW, delivered, source, verified

ALIKE = ["a", "b", 'a","b', '["a","b"]', '["a"]', '["a",null,"b"]']
VALUES = some.integers(-(2**64), 2**64) | some.text(min_size=1)
OPTIONAL = Provider("own", Hmac(header="X-Sum"), id="body:a + body:b? + body:c?")


def key(parts: dict[str, Any]) -> str:
    signed = duly.sign(OPTIONAL, json.dumps(parts).encode(), "secret", now=NOW)
    found = duly.verify(OPTIONAL, signed.headers, signed.body, "secret", now=NOW)
    assert found.id_kind == "signed"
    return found.id


@given(
    *[some.fixed_dictionaries({"a": VALUES}, optional={"b": VALUES, "c": VALUES}) for _ in range(2)]
)
def test_two_different_lists_of_parts_never_make_one_key(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    told = [{name: str(value) for name, value in each.items()} for each in (one, other)]
    assert (key(one) == key(other)) == (told[0] == told[1])


def test_of_all_parts_that_look_alike_no_two_lists_make_one_key() -> None:
    made: dict[str, dict[str, str]] = {}
    for values in product(ALIKE, [None, *ALIKE], [None, *ALIKE]):
        parts = {n: str(v) for n, v in zip("abc", values, strict=True) if v is not None}
        assert made.setdefault(key(parts), parts) == parts


def test_a_number_and_its_digits_are_one_id() -> None:
    assert key({"a": 881}) == key({"a": "881"})
    assert key({"a": 881, "b": 1}) == key({"a": "881", "b": "1"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x", "b": "y"}, {"a": "x", "c": "y"}),
        ({"a": '["x","y"]'}, {"a": "x", "b": "y"}),
        ({"a": 'x","y'}, {"a": "x", "b": "y"}),
        ({"a": "x,y"}, {"a": "x", "b": "y"}),
    ],
)
def test_parts_that_look_alike_are_told_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(one) != key(other)


SENDGRID = (
    b'[{"email":"a@example.com","event":"delivered","sg_event_id":"sg_1","timestamp":1767225600},\r\n'
    b'{"email":"b@example.com","event":"open","sg_message_id":"m_1","timestamp":1767225601},\r\n'
    b'{"event":"bounce"}]\r\n'
)
HUBSPOT = json.dumps(
    [
        {"eventId": 1, "subscriptionId": place, "occurredAt": 1767225600000 + place, "portalId": 3,
         "objectId": 4, "subscriptionType": "contact.creation", "attemptNumber": 0}
        for place in range(100)
    ]
).encode()  # fmt: skip


def test_every_event_of_a_sendgrid_delivery_has_facts_of_its_own() -> None:
    found = verified(source("sendgrid"), delivered("sendgrid", SENDGRID))
    assert [one.id_kind for one in found.events] == ["signed", "signed", "body"]
    assert found.events[0].id == "sg_1"
    assert json.loads(found.events[1].id) == ["m_1", "open", "b@example.com", "1767225601"]
    assert [one.type for one in found.events] == ["delivered", "open", "bounce"]
    assert [one.json for one in found.events] == found.json
    assert (found.id, found.id_kind) == ("body_" + found.fingerprint.hex(), "body")
    assert (found.type, found.time, found.version) == (None, None, None)


def test_a_hundred_hubspot_events_have_a_hundred_ids_that_survive_a_retry() -> None:
    retried = HUBSPOT.replace(b'"attemptNumber": 0', b'"attemptNumber": 1')
    first, retry = (
        verified(source("hubspot"), delivered("hubspot", body)) for body in (HUBSPOT, retried)
    )
    assert len({one.id for one in first.events}) == 100
    assert [one.id for one in first.events] == [one.id for one in retry.events]
    assert first.id != retry.id


def adyen(*items: dict[str, Any]) -> bytes:
    listed = [{"NotificationRequestItem": item} for item in items]
    return json.dumps({"live": "false", "notificationItems": listed}).encode()


def test_every_item_of_an_adyen_notification_is_signed_and_known_by_its_fields() -> None:
    body = adyen(
        {"pspReference": "p_1", "eventCode": "AUTHORISATION", "success": "true"},
        {"pspReference": "p_1", "eventCode": "AUTHORISATION", "success": "false"},
        {"pspReference": "p_1", "eventCode": "REFUND"},
    )
    signed = delivered("adyen", body)
    found = verified(source("adyen"), signed)
    assert len({one.id for one in found.events}) == 3
    assert {one.id_kind for one in found.events} == {"signed"}
    tampered = signed.body.replace(b'"REFUND"', b'"CAPTURE"')
    with pytest.raises(Rejected):
        verified(source("adyen"), signed, body=tampered)


@pytest.mark.parametrize("body", [b"[]", b"[1]", b'[{"event":"open"},1]', b'{"a":1}', b"null"])
def test_what_is_no_batch_is_one_event(body: bytes) -> None:
    found = verified(source("sendgrid"), delivered("sendgrid", body))
    assert [one.id for one in found.events] == [found.id]
    assert found.id_kind == "body"


def test_a_batch_with_one_event_without_an_id_is_refused_where_ids_are_required() -> None:
    signed = delivered("sendgrid", SENDGRID)
    with pytest.raises(Rejected, match="no event id"):
        verified(source("sendgrid", missing_id="reject"), signed)
