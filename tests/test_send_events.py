"""The event that ``duly send`` makes has the id and the type it was asked for, at their places."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly._kernel.errors import Misuse
from duly.gate import Secret, provider_named
from duly.tools.sending.events import Event, Wish, event_of
from duly.tools.sending.parcels import Parcel, altered
from tests.gate.genuine import PROVIDERS, keys

NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)
URL = "http://127.0.0.1:8000/hook"
# Providers whose type is made of two parts.
TWO_PARTS = {"github", "linear"}


def made(provider: str, **wish: object) -> Event:
    return event_of(provider_named(provider), Wish(**wish), NOW)  # type: ignore[arg-type]


def arrived(provider: str, event: Event) -> duly.Verified:
    """The event on the other side."""
    profile, pair = provider_named(provider), keys(provider)
    parcel = Parcel(profile, Secret(pair.sender), URL, event, {}, "genuine", timedelta(0))
    sent = parcel.attempt()
    there = duly.verify(duly.Source(provider, pair.receiver), sent.headers, sent.body, url=sent.url)
    assert [one.id for one in parcel.facts()] == [one.id for one in there.items]
    return there


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("asked", ["id-of-mine", "4711"])
def test_the_id_is_the_one_asked_for_and_twice_the_same_event_byte_for_byte(
    provider: str, asked: str
) -> None:
    event = made(provider, id=asked)
    there = arrived(provider, event)
    assert there.id == asked or f'"{asked}"' in there.id
    assert made(provider, id=asked) == event
    other = arrived(provider, made(provider, id="another"))
    assert other.id != there.id
    assert other.body != there.body


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("asked", ["invoice.paid", "ping"])
def test_the_type_is_the_one_asked_for(provider: str, asked: str) -> None:
    assert arrived(provider, made(provider, type=asked)).type == asked


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_sample_happened_within_the_last_hour(provider: str) -> None:
    event = arrived(provider, made(provider))
    assert b"1767225600" not in event.body
    assert b"2026-01-01" not in event.body
    if event.time is not None:
        assert timedelta(0) <= NOW - event.time < timedelta(hours=1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_says_itself_which_event_it_is(provider: str) -> None:
    body = provider_named(provider).sample
    first, second = (arrived(provider, made(provider, body=body)) for _ in range(2))
    assert first.id == second.id
    if provider not in ("adyen", "linear"):  # one signs inside the body, one dates it there
        assert first.body == body


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_can_be_given_an_id_and_a_type(provider: str) -> None:
    body = provider_named(provider).sample
    there = arrived(provider, made(provider, body=body, id="mine", type="order.paid"))
    assert there.id == "mine" or '"mine"' in there.id
    assert there.type == "order.paid"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_id_sent_again_within_the_hour_is_a_retry_and_no_conflict(provider: str) -> None:
    hour = datetime(2026, 11, 16, 10, tzinfo=UTC)
    profile, wish = provider_named(provider), Wish(id="mine")
    first, second = (event_of(profile, wish, hour + n * MINUTE) for n in (5, 55))
    assert first == second


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_changed_is_one_byte_of_what_is_signed_and_the_body_stays_sound(
    provider: str,
) -> None:
    event, secret = made(provider), Secret(keys(provider).sender)
    parcel = Parcel(provider_named(provider), secret, URL, event, {}, "genuine", timedelta(0))
    sent = parcel.attempt()
    changed = altered(sent, parcel.scheme, parcel.provider)
    [where] = [
        n for n, pair in enumerate(zip(sent.body, changed.body, strict=True)) if len(set(pair)) > 1
    ]
    if provider == "adyen":
        assert b"eventDate" in sent.body[where:]  # it comes last, but is not signed


def test_a_change_leaves_json_that_can_be_read() -> None:
    event = Event(b'{"id":"evt_1","paid":true}')
    secret = Secret(keys("stripe").sender)
    parcel = Parcel(provider_named("stripe"), secret, URL, event, {}, "tampered", timedelta(0))
    changed = json.loads(parcel.attempt().body)
    assert changed != json.loads(event.body)


@pytest.mark.parametrize("provider", sorted(TWO_PARTS))
def test_a_type_of_one_word_leaves_no_second_part_behind(provider: str) -> None:
    assert b"action" in provider_named(provider).sample
    assert b"action" not in made(provider, type="push").body


def test_a_number_stays_a_number_and_the_ending_stays() -> None:
    assert b'"eventId":4711,' in made("hubspot", id="4711").body
    assert made("sendgrid").body.endswith(b"}]\r\n")


def test_a_body_without_an_id_is_given_one_where_the_profile_looks_first() -> None:
    event = made("stripe", body=b'{"type":"a.b"}', id="evt_9")
    assert event.body == b'{"type":"a.b","id":"evt_9"}'
    command = made("slack", body=b"command=%2Fpay&trigger_id=1.2", id="9.9")
    assert command.body == b"command=%2Fpay&trigger_id=9.9"


def test_an_id_that_is_signed_in_the_body_counts_before_the_header() -> None:
    body = b'{"id":"old","type":"a"}'
    assert arrived("twilio", made("twilio", body=body, id="new")).id == "new"


@pytest.mark.parametrize(
    ("provider", "body", "told"),
    [
        ("stripe", b"\xff\x00", "it is not UTF-8"),
        ("stripe", b"[1]", "one event"),
        ("hubspot", b'[{"eventId":1},{"eventId":2}]', "not several"),
        ("hubspot", b"[]", "one event"),
        ("adyen", b'{"notificationItems":[{"NotificationRequestItem":{}},'
                  b'{"NotificationRequestItem":{}}]}', "not several"),
        ("slack", b"payload=%7B%22trigger_id%22%3A%221%22%7D", "a form with JSON in it"),
        ("zoom", b'{"event":"x","event_ts":1,"payload":7}', "no room for payload.object.uuid"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_given_an_id_is_refused_with_a_way_out(
    provider: str, body: bytes, told: str
) -> None:
    with pytest.raises(Misuse, match="leave --id and --type out") as raised:
        made(provider, body=body, id="mine")
    assert told in str(raised.value)
    assert made(provider, body=body).body == body
