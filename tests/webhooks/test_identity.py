"""Which event a delivery is, and what its id is worth: what the ledger's claims stand on."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Provider, Source
from duly.errors import Rejected
from duly.webhooks import Code, Hmac, SharedToken, Signed
from tests.webhooks.genuine import NOW, PROVIDERS, URL, delivered, source, verified

if TYPE_CHECKING:
    from duly.types import VerifiedDelivery

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"
# Where the id travels outside the signature: the headers that name it.
UNSIGNED = {
    "github": ["x-github-delivery"],
    "shopify": ["x-shopify-webhook-id"],
    "linear": ["linear-delivery"],
    "twilio": ["i-twilio-idempotency-token"],
}


def changed(signed: Signed, **headers: str | None) -> dict[str, str]:
    """The headers with some of them replaced, or taken away."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in signed.headers.items() if name.lower() not in told}
    return kept | {name: value for name, value in told.items() if value is not None}


def known(first: VerifiedDelivery, second: VerifiedDelivery) -> bool:
    """Whether a ledger that has claimed the first delivery's keys knows the second."""
    claimed = {first.id, first.replay_key} - {None}
    return bool(claimed & {second.id, second.replay_key})


def digest(body: bytes) -> str:
    return "body_" + hashlib.sha256(body).hexdigest()


# id, what it is worth, type, time and version of the sample of each profile.
SAMPLES: dict[str, tuple[object, ...]] = {
    "adyen": ('["p_1","AUTHORISATION","true"]', "signed", "AUTHORISATION", FIRST, FIRST),
    "discord": (
        '["1","APPLICATION_AUTHORIZED","2026-01-01T00:00:00.000000Z"]',
        *("signed", "APPLICATION_AUTHORIZED", FIRST, FIRST),
    ),
    "github": ("msg-1", "unsigned", "thing.done.opened", None, None),
    "gitlab": ("msg-1", "signed", "thing.done", FIRST, FIRST),
    "hubspot": ('["1","2","3","4","1767225600000"]', "signed", "contact.creation", FIRST,
                1767225600000),
    "linear": ("msg-1", "unsigned", "Issue.create", FIRST, FIRST),
    "paddle": ("evt_1", "signed", "transaction.completed", FIRST, FIRST),
    "sendgrid": ("sg_1", "signed", "delivered", FIRST, 1767225600),
    "shopify": ("msg-1", "unsigned", "thing.done", FIRST, FIRST),
    "slack": ("Ev1", "signed", "app_mention", FIRST, "1767225600.000100"),
    "square": ("ev_1", "signed", "payment.updated", FIRST, FIRST),
    "standard-webhooks": ("msg-1", "signed", "invoice.paid", FIRST, FIRST),
    "stripe": ("evt_1", "signed", "payment_intent.succeeded", FIRST, 1767225600),
    "svix": ("msg-1", "signed", "user.created", FIRST, FIRST),
    "twilio": ("msg-1", "unsigned", "delivered", None, None),
    "zoom": ('["meeting.started","1767225600000","u1",null,null,null]', "signed",
             "meeting.started", FIRST, 1767225600000),
}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_facts_of_each_providers_sample_are_found(provider: str) -> None:
    found = verified(source(provider), delivered(provider, id="msg-1", type="thing.done"))
    facts = (found.id, found.id_kind, found.type, found.time, found.version)
    assert facts == SAMPLES[provider]
    assert (len(found.events), found.events[0].id) == (1, found.id)
    assert found.fingerprint == hashlib.sha256(found.body).digest()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_retry_has_the_identity_of_the_first_attempt(provider: str) -> None:
    attempts = [delivered(provider, id="msg-1", now=NOW + after) for after in (0, 1)]
    first, retry = (verified(source(provider), one, now=NOW + 1) for one in attempts)
    assert (first.id, first.id_kind, first.replay_key) == (
        retry.id,
        retry.id_kind,
        retry.replay_key,
    )


@pytest.mark.parametrize("provider", ["standard-webhooks", "svix", "gitlab", "stripe", "paddle"])
def test_equal_bodies_under_two_signed_ids_are_two_events(provider: str) -> None:
    bodies = [b'{"id":"a","event_id":"a"}', b'{"id":"b","event_id":"b"}']
    if provider in {"standard-webhooks", "svix", "gitlab"}:
        bodies = [b'{"type":"ping"}'] * 2
    signed = [delivered(provider, body, id=f"m-{place}") for place, body in enumerate(bodies)]
    first, second = (verified(source(provider), one) for one in signed)
    assert first.id_kind == second.id_kind == "signed"
    assert not known(first, second)


@pytest.mark.parametrize("provider", UNSIGNED)
def test_a_known_body_under_a_fresh_unsigned_id_is_known(provider: str) -> None:
    where, signed = source(provider), delivered(provider, id="msg-1")
    first = verified(where, signed)
    assert first.id_kind == "unsigned"
    assert first.replay_key not in (None, first.id)
    for name in UNSIGNED[provider]:
        fresh = verified(where, signed, headers=changed(signed, **{name: "msg-2"}))
        assert (fresh.id, fresh.id_kind) == ("msg-2", "unsigned")
        assert fresh.replay_key == first.replay_key
        bare = verified(where, signed, headers=changed(signed, **{name: None}))
        assert first.replay_key in {bare.id, bare.replay_key}
        empty = verified(where, signed, headers=changed(signed, **{name: ""}))
        assert first.replay_key in {empty.id, empty.replay_key}


@pytest.mark.parametrize("provider", UNSIGNED)
def test_another_body_is_another_event_whatever_its_id(provider: str) -> None:
    other = b"MessageSid=SM2&MessageStatus=sent" if provider == "twilio" else b'{"other":1}'
    first = verified(source(provider), delivered(provider, id="msg-1"))
    second = verified(source(provider), delivered(provider, other, id="msg-2"))
    assert not known(first, second)


SWAPS = [
    ("github", "shopify-webhook-id"),
    ("shopify", "shopify-webhook-id"),
    ("shopify", "x-shopify-event-id"),
    ("svix", "webhook-id"),
    ("standard-webhooks", "svix-id"),
    ("gitlab", "idempotency-key"),
    ("gitlab", "x-gitlab-event-uuid"),
    ("stripe", "idempotency-key"),
    ("slack", "idempotency-key"),
]


@pytest.mark.parametrize(("provider", "name"), SWAPS)
def test_a_header_that_somebody_adds_makes_no_new_event(provider: str, name: str) -> None:
    signed = delivered(provider, id="msg-1")
    first = verified(source(provider), signed)
    assert known(first, verified(source(provider), signed, headers=signed.headers | {name: "new"}))


def test_a_svix_delivery_sent_again_under_the_common_names_is_known() -> None:
    signed = delivered("svix", id="msg-1")
    first = verified(source("svix"), signed)
    renamed = {name.replace("svix-", "webhook-"): value for name, value in signed.headers.items()}
    for headers in (renamed, renamed | {"svix-id": "new"}):
        assert known(first, verified(source("svix"), signed, headers=headers))


INTERACTION = b"payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%221.2%22%7D"


@pytest.mark.parametrize("told", [None, "", FORM, "application/json", "text/plain"])
@pytest.mark.parametrize(("body", "kind"), [(None, "application/json"), (INTERACTION, FORM)])
def test_the_unsigned_content_type_makes_no_new_event(
    body: bytes | None, kind: str, told: str | None
) -> None:
    signed = delivered("slack", body, headers={"Content-Type": kind})
    first = verified(source("slack"), signed)
    assert first.id_kind == "signed"
    again = verified(source("slack"), signed, headers=changed(signed, content_type=told))
    assert known(first, again)


REWRITTEN = [
    b"To=%2B15550100&MessageStatus=delivered&MessageSid=SM1",
    b"MessageSid=S%4d1&MessageStatus=%64elivered&To=%2b15550100",
    b"MessageSid=SM1&MessageSid=SM1&MessageStatus=delivered&To=%2B15550100",
    b"MessageSid=SM1MessageStatusdelivered&To=%2B15550100",
]


@pytest.mark.parametrize("body", REWRITTEN)
def test_a_form_of_twilios_in_other_words_is_known(body: bytes) -> None:
    signed = delivered("twilio", id="msg-1")
    first = verified(source("twilio"), signed)
    for token in ("msg-2", None):
        headers = changed(signed, i_twilio_idempotency_token=token)
        again = verified(source("twilio"), signed, headers=headers, body=body)
        assert again.body != first.body
        assert first.replay_key in {again.id, again.replay_key}
        with_port = URL.replace("example.com", "example.com:443")
        again = verified(source("twilio"), signed, headers=headers, body=body, url=with_port)
        assert first.replay_key in {again.id, again.replay_key}


def test_text_inside_json_is_not_taken_for_the_fields_of_a_form() -> None:
    body = b'{"id":"EZ1","text":"&MessageSid=SM1&MessageStatus=sent&"}'
    signed = delivered("twilio", body, headers={"Content-Type": "application/json"})
    headers = changed(signed, i_twilio_idempotency_token=None)
    assert verified(source("twilio"), signed, headers=headers).id == "EZ1"


def test_unsigned_words_of_an_adyen_notification_make_no_new_event() -> None:
    signed = delivered("adyen")
    first = verified(source("adyen"), signed)
    body = json.loads(signed.body)
    body["notificationItems"][0]["NotificationRequestItem"] |= {"eventDate": "", "reason": "new"}
    again = verified(source("adyen"), signed, body=json.dumps(body, indent=1).encode())
    assert known(first, again)


# Where there is no id


def own(id_places: str | None) -> Provider:
    return Provider("own", Hmac(header="X-Sum"), id=id_places)


def seen(provider: Provider, body: bytes, **options: Any) -> VerifiedDelivery:
    signed = duly.sign(provider, body, "secret", now=NOW)
    return duly.verify(Source(provider, "secret", **options), signed.headers, signed.body, now=NOW)


def test_a_sender_without_ids_has_the_digest_of_its_bodies() -> None:
    found = seen(own(None), b"any bytes")
    assert (found.id, found.id_kind, found.replay_key) == (digest(b"any bytes"), "body", None)


@pytest.mark.parametrize(
    "value",
    ["null", '""', "true", "[]", '{"id":1}', f'"{digest(b"x")}"', '"%s"' % ("x" * 5000),
     '"\\ud800"', '"body_%s"' % ("0" * 64)],
)  # fmt: skip
def test_what_is_no_id_is_not_taken_for_one(value: str) -> None:
    body = f'{{"id":{value}}}'.encode()
    found = seen(own("body:id"), body)
    assert (found.id, found.id_kind) == (digest(body), "body")
    with pytest.raises(Rejected) as caught:
        seen(own("body:id"), body, missing_id="reject")
    assert (caught.value.code, caught.value.status) == (Code.MALFORMED, 400)


def test_an_unsigned_id_that_looks_like_a_digest_cannot_take_anothers_place() -> None:
    victim, signed = digest(b'{"other":1}'), delivered("github")
    found = verified(source("github"), signed, headers=changed(signed, x_github_delivery=victim))
    assert (found.id_kind, found.id) == ("body", digest(signed.body))


@pytest.mark.parametrize(("value", "text"), [("5", "5"), ("1.5", "1.5"), ('"a"', "a"), ("0", "0"),
                                             (str(2**80), str(2**80))])  # fmt: skip
def test_numbers_are_ids_too(value: str, text: str) -> None:
    found = seen(own("body:id"), f'{{"id":{value}}}'.encode(), missing_id="reject")
    assert (found.id, found.id_kind) == (text, "signed")


@pytest.mark.parametrize(
    "provider", [name for name in PROVIDERS if name not in {"twilio", "adyen"}]
)
def test_a_delivery_without_an_id_is_refused_where_that_is_asked(provider: str) -> None:
    signed = delivered(provider, b'{"nothing":1}')
    names = UNSIGNED.get(provider, [])
    headers = changed(signed, **dict.fromkeys(names))
    found = verified(source(provider), signed, headers=headers)
    strict = source(provider, missing_id="reject")
    if provider in {"standard-webhooks", "svix", "gitlab"}:  # cannot be signed without one
        assert verified(strict, signed, headers=headers).id_kind == "signed"
        return
    assert (found.id, found.id_kind) == (digest(signed.body), "body")
    with pytest.raises(Rejected, match="no event id") as caught:
        verified(strict, signed, headers=headers)
    assert caught.value.code is Code.MALFORMED


def test_a_token_vouches_for_nothing_so_its_ids_are_unsigned() -> None:
    tokens = Provider("tokens", SharedToken(place="header:X-Token"), id="body:id")
    found = duly.verify(tokens, {"X-Token": "secret"}, b'{"id":"a"}', "secret")
    assert (found.id, found.id_kind, found.replay_key) == ("a", "unsigned", digest(b'{"id":"a"}'))
