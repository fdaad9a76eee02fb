"""A sender that duly does not know is a few lines of data, and then as good as one of the shelf."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

import duly
from duly.webhooks import Code, Hmac, Provider, Source, provider_names
from tests.webhooks.own_providers import GOCARDLESS, OWN_PROVIDERS, PAGERDUTY, PLIVO, WORKOS
from tests.webhooks.vectors import OWN, VERIFIED, Vector, checked, outcome

COUNTS = {name: 1 for name in OWN_PROVIDERS} | {"box": 5, "lithic": 2}
GENUINE = [vector for vector in OWN if vector.expected == VERIFIED]
# Headers that are part of what is signed: a sender has them before it signs.
SIGNED_ALONG = {"box-delivery-timestamp", "finch-event-id", "x-plivo-signature-v2-nonce"}


def vector_of(provider: Provider) -> Vector:
    return next(vector for vector in GENUINE if vector.provider == provider.name)


@pytest.mark.parametrize("vector", OWN, ids=str)
def test_a_vector_has_the_outcome_that_its_source_states(vector: Vector) -> None:
    assert outcome(vector, OWN_PROVIDERS[vector.provider]) == vector.expected


def test_no_vector_has_vanished() -> None:
    assert len(OWN_PROVIDERS) == 20
    assert Counter(vector.provider for vector in OWN) == COUNTS
    assert not OWN_PROVIDERS.keys() & set(provider_names())


@pytest.mark.parametrize("vector", GENUINE, ids=str)
def test_another_secret_does_not_verify(vector: Vector) -> None:
    provider = OWN_PROVIDERS[vector.provider]
    # Other letters of the same kind: base64 stays base64.
    other = "whsec_" + "B" * 32 if "whsec_" in vector.key else "B" * 32
    with pytest.raises(duly.errors.Rejected) as caught:
        duly.verify(
            Source(provider, other),
            vector.headers,
            vector.body,
            now=vector.now,
            url=vector.url,
        )
    assert caught.value.code is Code.BAD_SIGNATURE


@pytest.mark.parametrize("name", sorted(OWN_PROVIDERS))
def test_a_provider_of_ones_own_is_a_signer_too(name: str) -> None:
    provider = OWN_PROVIDERS[name]
    vector = vector_of(provider)
    told = {header: value for header, value in vector.headers if header.lower() in SIGNED_ALONG}
    signed = duly.sign(
        provider, vector.body, vector.key, id="evt_1", now=vector.now, url=vector.url, headers=told
    )
    verified = duly.verify(
        provider, signed.headers, signed.body, vector.key, now=vector.now, url=vector.url
    )
    assert verified.body == vector.body


def test_one_delivery_may_carry_several_events() -> None:
    verified = checked(vector_of(GOCARDLESS), GOCARDLESS)
    assert [event.id for event in verified.events] == ["EV00BD05S5VM2T", "EV00BD05TB8K63"]
    assert [event.type for event in verified.events] == [
        "subscriptions.created",
        "mandates.created",
    ]
    assert {event.id_kind for event in verified.events} == {"signed"}


def test_what_the_template_leaves_out_does_not_count_as_signed() -> None:
    verified = checked(vector_of(PLIVO), PLIVO)
    assert (verified.id, verified.id_kind) == ("12345", "unsigned")  # nothing parts it from the URL
    unsigned = Provider("plivo", PLIVO.scheme, id="body:CallUUID")
    assert not unsigned.schemes[0].covers(unsigned.selectors["id"].alternatives[0][0])


def test_a_time_in_milliseconds_is_held_to_its_tolerance() -> None:
    vector, source = vector_of(WORKOS), Source(WORKOS, vector_of(WORKOS).key)
    limit = timedelta(minutes=3).total_seconds()
    for age in (limit, -limit):
        duly.verify(source, vector.headers, vector.body, now=vector.now + age)
    for age in (limit + 1, -limit - 1):
        with pytest.raises(duly.errors.Rejected) as caught:
            duly.verify(source, vector.headers, vector.body, now=vector.now + age)
        assert caught.value.code is Code.STALE_TIMESTAMP


def test_one_of_several_signatures_is_enough() -> None:
    vector = vector_of(PAGERDUTY)
    [(name, signature)] = vector.headers
    several = [(name, f"v1={'0' * 64},{signature},v2=unknown")]
    assert duly.verify(PAGERDUTY, several, vector.body, vector.key).type is not None


def test_five_lines_are_enough() -> None:
    provider = Provider(
        "acme",
        Hmac(header="X-Acme-Signature"),
        id="body:id",
        type="body:type",
    )
    signed = duly.sign(provider, b'{"id":"evt_1","type":"order.paid"}', "a secret")
    verified = duly.verify(provider, signed.headers, signed.body, "a secret")
    assert (verified.id, verified.id_kind, verified.type) == ("evt_1", "signed", "order.paid")
