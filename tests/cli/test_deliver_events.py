"""The event that ``duly deliver`` makes has the id and type it was asked for, in their places."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly.core.errors import UsageError
from duly.testing.sender.events import EventRequest, EventToSign, event_of
from duly.testing.sender.provider_delivery import ProviderDelivery, tamper_body
from duly.webhooks import Secret, provider_named
from tests.webhooks.genuine import PROVIDERS, keys

NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)
URL = "http://127.0.0.1:8000/hook"
# Providers whose type is made of two parts.
TWO_PARTS = {"github", "linear"}


def made(provider: str, **wish: object) -> EventToSign:
    return event_of(provider_named(provider), EventRequest(**wish), NOW)  # type: ignore[arg-type]


def arrived(provider: str, event: EventToSign) -> duly.types.VerifiedDelivery:
    """The event on the other side."""
    profile, pair = provider_named(provider), keys(provider)
    parcel = ProviderDelivery(profile, Secret(pair.sender), URL, event, {}, "genuine", timedelta(0))
    sent = parcel.sign_attempt()
    there = duly.verify(duly.Source(provider, pair.receiver), sent.headers, sent.body, url=sent.url)
    assert [one.id for one in parcel.event_fields()] == [one.id for one in there.events]
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
    kept = arrived(provider, made(provider, body=body, keep_time=True))
    if provider not in ("adyen", "linear"):  # one signs inside the body, one dates it there
        assert kept.body == body


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_time_of_a_file_is_renewed_where_the_body_has_it(provider: str) -> None:
    body = provider_named(provider).sample
    before, after = (
        arrived(provider, made(provider, body=body, keep_time=kept)) for kept in (True, False)
    )
    assert after.type == before.type
    if before.time is None or provider == "shopify":  # whose time is in a header, and not signed
        assert after.body == before.body
    else:
        assert timedelta(0) <= NOW - after.time < timedelta(hours=1)  # type: ignore[operator]


def test_events_of_one_batch_keep_their_order_and_their_bytes() -> None:
    body = (
        b'[ {"eventId": 1, "occurredAt": 1600000000000, "n\\u0061me": "\xc3\xbc"},\n'
        b'  {"eventId": 2, "occurredAt":1600000001500 } ]\n'
    )
    event = made("hubspot", body=body)
    first, second = json.loads(event.body)
    assert second["occurredAt"] - first["occurredAt"] == 1500
    hour = NOW.replace(minute=0, second=0, microsecond=0)
    assert second["occurredAt"] == int(hour.timestamp()) * 1000 + 500
    for one, old in ((first, b"1600000000000"), (second, b"1600000001500")):
        event = EventToSign(event.body.replace(str(one["occurredAt"]).encode(), old))
    assert event.body == body


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"2020-01-01T02:00:00.123+02:00"', "%Y-%m-%dT{:02}:00:00.123+02:00"),
        ('"1577836800"', None),
        ("1577836800.5", None),
        ('"2020-01-01T00:00Z"', None),
    ],
)
def test_a_time_is_renewed_in_the_notation_that_it_had(old: str, new: str | None) -> None:
    event = made("square", body=b'{"event_id":"1","created_at":' + old.encode() + b"}")
    written = json.loads(event.body)["created_at"]
    assert type(written) is type(json.loads(old))
    there = arrived("square", event).time
    assert there is not None
    assert timedelta(0) <= NOW - there < timedelta(hours=1)
    if new is not None:
        assert written.endswith(":00:00.123+02:00")


def test_times_that_cannot_be_moved_together_are_left_alone() -> None:
    body = b'[{"occurredAt":"0001-01-01T00:00:00Z"},{"occurredAt":"9999-12-31T00:00:00Z"}]'
    assert made("hubspot", body=body).body == body


def test_of_a_time_that_is_told_twice_the_one_that_counts_is_renewed() -> None:
    event = made("stripe", body=b'{"created":1,"created":2}')
    assert event.body.startswith(b'{"created":1,"created":1')
    assert json.loads(event.body)["created"] % 3600 == 0


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"[1]", b'{"created":"soon"}', b'{"created":{"a":1}}', b'{"id":1,"id":2}'],
)
def test_a_file_without_a_readable_time_is_left_alone(body: bytes) -> None:
    assert made("stripe", body=body).body == body


STRIPE_OBJECTS: dict[str, tuple[str, str, dict[str, object]]] = {
    "payment_intent.succeeded": ("payment_intent", "pi_", {"status": "succeeded"}),
    "payment_intent.payment_failed": (
        "payment_intent", "pi_", {"status": "requires_payment_method"}),
    "charge.refunded": ("charge", "ch_", {"refunded": True}),
    "charge.dispute.created": ("dispute", "dp_", {}),
    "invoice.paid": ("invoice", "in_", {"status": "paid", "amount_remaining": 0}),
    "invoice.payment_failed": ("invoice", "in_", {"status": "open"}),
    "customer.created": ("customer", "cus_", {}),
    "customer.subscription.deleted": ("subscription", "sub_", {"status": "canceled"}),
    "checkout.session.completed": ("checkout.session", "cs_", {"payment_status": "paid"}),
    "something.new.happened": ("new", "new_", {}),
}  # fmt: skip


@pytest.mark.parametrize("type", STRIPE_OBJECTS)
def test_the_object_of_a_stripe_event_follows_its_type(type: str) -> None:
    kind, prefix, members = STRIPE_OBJECTS[type]
    event = json.loads(made("stripe", type=type).body)
    about = event["data"]["object"]
    assert (event["type"], event["object"], about["object"]) == (type, "event", kind)
    assert about["id"].startswith(prefix)
    assert {name: about[name] for name in members} == members
    if kind not in ("customer", "dispute"):
        assert about["customer"].startswith("cus_")


def test_two_events_are_about_two_objects_of_one_customer() -> None:
    one, other = (
        json.loads(made("stripe", id=id).body)["data"]["object"] for id in ("evt_1", "evt_2")
    )
    assert one["id"] != other["id"]
    assert one["customer"] == other["customer"]


@pytest.mark.parametrize(
    ("provider", "type", "member"),
    [
        ("github", "pull_request.closed", "pull_request"),
        ("github", "issues.opened", "issue"),
        ("github", "push", "head_commit"),
        ("github", "release.published", "release"),
        ("github", "workflow_run.completed", "workflow_run"),
        ("github", "star.created", "repository"),
        ("shopify", "orders/paid", "line_items"),
        ("shopify", "products/update", "variants"),
        ("shopify", "customers/create", "first_name"),
        ("shopify", "refunds/create", "refund_line_items"),
        ("shopify", "carts/create", "updated_at"),
        ("gitlab", "Push Hook", "commits"),
        ("gitlab", "Issue Hook", "object_attributes"),
    ],
)
def test_the_sample_follows_the_type_and_no_other_type_has_it(
    provider: str, type: str, member: str
) -> None:
    event = arrived(provider, made(provider, type=type))
    assert event.type == type
    assert member in event.json
    kinds = {"pull_request", "issue", "head_commit", "release", "workflow_run", "line_items"}
    assert kinds & set(event.json) <= {member}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_can_be_given_an_id_and_a_type(provider: str) -> None:
    body = provider_named(provider).sample
    there = arrived(provider, made(provider, body=body, id="mine", type="order.paid"))
    assert there.id == "mine" or '"mine"' in there.id
    assert there.type == "order.paid"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_id_sent_again_within_the_hour_is_a_retry_and_no_conflict(provider: str) -> None:
    hour = datetime(2026, 11, 16, 10, tzinfo=UTC)
    profile, wish = provider_named(provider), EventRequest(id="mine")
    first, second = (event_of(profile, wish, hour + n * MINUTE) for n in (5, 55))
    assert first == second


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_changed_is_one_byte_of_what_is_signed_and_the_body_stays_sound(
    provider: str,
) -> None:
    event, secret = made(provider), Secret(keys(provider).sender)
    parcel = ProviderDelivery(
        provider_named(provider), secret, URL, event, {}, "genuine", timedelta(0)
    )
    sent = parcel.sign_attempt()
    changed = tamper_body(sent, parcel.scheme, parcel.provider)
    [where] = [
        n for n, pair in enumerate(zip(sent.body, changed.body, strict=True)) if len(set(pair)) > 1
    ]
    if provider == "adyen":
        assert b"eventDate" in sent.body[where:]  # it comes last, but is not signed


def test_a_change_leaves_json_that_can_be_read() -> None:
    event = EventToSign(b'{"id":"evt_1","paid":true}')
    secret = Secret(keys("stripe").sender)
    parcel = ProviderDelivery(
        provider_named("stripe"), secret, URL, event, {}, "tampered", timedelta(0)
    )
    changed = json.loads(parcel.sign_attempt().body)
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
    with pytest.raises(UsageError, match="leave id= and type= out") as raised:
        made(provider, body=body, id="mine")
    assert told in str(raised.value)
    assert made(provider, body=body, keep_time=True).body == body
