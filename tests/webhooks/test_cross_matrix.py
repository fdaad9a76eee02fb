"""A delivery is good at the one source it was signed for, within its time, and nowhere else."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise, permutations

import pytest

import duly
from duly.webhooks import Code, Signed, provider_named
from tests.webhooks.genuine import NOW, PROVIDERS, URL, delivered, source, verified

FOREIGN = {Code.BAD_SIGNATURE, Code.MISSING_SIGNATURE, Code.MALFORMED, Code.UNKNOWN_KEY}
# Those that sign a time, in a header or in the body.
TIMED = {
    "discord",
    "gitlab",
    "hubspot",
    "linear",
    "paddle",
    "sendgrid",
    "slack",
    "standard-webhooks",
    "stripe",
    "svix",
    "zoom",
}
DECADE = timedelta(days=3650).total_seconds()
# However patient a provider's retries make us, a sender's clock is not further ahead than this.
AHEAD = 300.0
PAIRS = list(permutations(PROVIDERS, 2))
# In the short form each provider is sender once and receiver once.
NEIGHBOURS = set(pairwise([*PROVIDERS, PROVIDERS[0]]))
SHOWN_PAIRS = [
    pair if pair in NEIGHBOURS else pytest.param(*pair, marks=pytest.mark.wide) for pair in PAIRS
]


def tolerance(provider: str) -> float:
    told = provider_named(provider).tolerance
    assert told is not None
    return told.total_seconds()


def rejection(
    provider: str, signed: Signed, *, seed: str | None = None, now: float = NOW
) -> duly.errors.Rejected:
    """How a source, with a secret of its own, rejects a delivery."""
    with pytest.raises(duly.errors.Rejected) as caught:
        verified(source(provider, seed or provider), signed, now=now)
    return caught.value


def genuine(provider: str) -> Signed:
    """A delivery signed with the secret of this provider's source."""
    return delivered(provider, seed=provider)


def outcome_in_a_decade(provider: str) -> Code | None:
    """None where a delivery is as good as ever."""
    try:
        verified(source(provider, provider), genuine(provider), now=NOW + DECADE)
    except duly.errors.Rejected as problem:
        return problem.code
    return None


def garbled(signed: Signed) -> tuple[list[tuple[str, str]], bytes]:
    """A delivery of which nobody can say what it was: two of every header, half of the body."""
    return [*signed.headers.items(), *signed.headers.items()], signed.body[: len(signed.body) - 1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_genuine_delivery_verifies_at_its_own_source(provider: str) -> None:
    assert verified(source(provider, provider), genuine(provider)).provider.name == provider


@pytest.mark.parametrize(("sender", "receiver"), SHOWN_PAIRS)
def test_a_genuine_delivery_is_rejected_at_every_other_source(sender: str, receiver: str) -> None:
    assert rejection(receiver, genuine(sender)).code in FOREIGN


@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_sources_of_one_provider_do_not_take_each_others_deliveries(provider: str) -> None:
    signed = genuine(provider)
    assert rejection(provider, signed, seed="another seed").code is Code.BAD_SIGNATURE


def test_the_matrix_has_every_pair() -> None:
    assert len(PROVIDERS) == 16
    assert len(PAIRS) == 16 * 15


def test_exactly_these_providers_sign_a_time() -> None:
    # By what they do, ten years on, and not by what their profiles say.
    assert {provider for provider in PROVIDERS if outcome_in_a_decade(provider)} == TIMED


@pytest.mark.parametrize("provider", sorted(TIMED))
def test_a_delivery_is_good_until_its_tolerance_ends(provider: str) -> None:
    limit = tolerance(provider)
    here = source(provider, provider)
    assert verified(here, genuine(provider), now=NOW + limit).sent_at is not None
    late = rejection(provider, genuine(provider), now=NOW + limit + 1)
    assert late.code is Code.STALE_TIMESTAMP


@pytest.mark.parametrize("provider", sorted(TIMED))
def test_a_delivery_from_the_future_is_held_to_five_minutes_at_most(provider: str) -> None:
    limit = min(tolerance(provider), AHEAD)
    here = source(provider, provider)
    assert verified(here, genuine(provider), now=NOW - limit).sent_at is not None
    early = rejection(provider, genuine(provider), now=NOW - limit - 1)
    assert early.code is Code.STALE_TIMESTAMP


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - TIMED))
def test_a_delivery_without_a_signed_time_is_good_at_any_age(provider: str) -> None:
    for age in (DECADE, -DECADE):
        told = verified(source(provider, provider), genuine(provider), now=NOW + age)
        assert told.sent_at is None


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_rejection_has_the_status_that_the_provider_understands(provider: str) -> None:
    refused = 401 if provider == "discord" else 403
    assert rejection(provider, genuine(provider), seed="another seed").status == refused
    assert rejection(provider, Signed({}, b"{}", URL, "POST")).status == refused
    if provider in TIMED:
        assert rejection(provider, genuine(provider), now=NOW + DECADE).status == refused


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_cannot_be_read_is_the_senders_bad_request(provider: str) -> None:
    headers, body = garbled(genuine(provider))
    with pytest.raises(duly.errors.Rejected) as caught:
        duly.verify(source(provider, provider), headers, body, now=NOW)
    assert (caught.value.code, caught.value.status) == (Code.MALFORMED, 400)
