"""The signature alone: what `verify` accepts it accepts, without a look at the event."""

from __future__ import annotations

import pytest

from duly.errors import Rejected
from duly.webhooks import Code, check_signature, provider_named, provider_names
from tests.webhooks.genuine import NOW, URL, delivered, keys, source, verified

STALE = NOW + 40 * 24 * 3600


@pytest.mark.parametrize("provider", provider_names())
def test_a_genuine_delivery_names_its_secret(provider: str) -> None:
    signed = delivered(provider)
    found = check_signature(
        source(provider), signed.headers, signed.body, now=NOW, url=URL, method=signed.method
    )
    assert found == verified(source(provider), signed).secret


@pytest.mark.parametrize("provider", provider_names())
def test_another_secret_is_rejected_with_the_status_that_verify_has(provider: str) -> None:
    signed, where = delivered(provider, seed="another seed"), source(provider)
    with pytest.raises(Rejected) as expected:
        verified(where, signed)
    with pytest.raises(Rejected) as caught:
        check_signature(where, signed.headers, signed.body, now=NOW, url=URL, method=signed.method)
    assert (caught.value.code, caught.value.status) == (expected.value.code, expected.value.status)


@pytest.mark.parametrize(
    "provider",
    [
        one
        for one in provider_names()
        if one in ("stripe", "standard-webhooks", "slack", "linear")  # a header, or the body
        and provider_named(one).tolerance is not None
    ],
)
def test_an_old_signature_is_stale(provider: str) -> None:
    signed = delivered(provider)
    with pytest.raises(Rejected) as caught:
        check_signature(source(provider), signed.headers, signed.body, now=STALE, url=URL)
    assert caught.value.code is Code.STALE_TIMESTAMP


def test_it_takes_a_provider_and_its_secret() -> None:
    signed = delivered("stripe", b"not JSON")
    receiver = keys("stripe").receiver
    assert check_signature("stripe", signed.headers, signed.body, receiver, now=NOW) == "1"
