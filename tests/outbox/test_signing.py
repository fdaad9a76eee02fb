"""What is sent is signed as Standard Webhooks, so that any receiver of them can verify it."""

from __future__ import annotations

import base64
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import duly
from duly.outbox.message import Message
from duly.outbox.signing import StandardSigner

OLD, NEW = ("whsec_" + base64.b64encode(os.urandom(24)).decode() for _ in range(2))


def pair() -> tuple[str, str]:
    """A private key and its public one, in the forms of the specification."""
    key = Ed25519PrivateKey.generate()
    seed = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return "whsk_" + base64.b64encode(seed).decode(), "whpk_" + base64.b64encode(public).decode()


def message(body: bytes | None = b'{"a":1}') -> Message:
    return Message("msg-1", "POST", "https://example.com/", {}, body, 1, datetime.now(UTC))


def verified(
    headers: dict[str, str], secret: Any, body: bytes = b'{"a":1}'
) -> duly.types.VerifiedDelivery:
    return duly.verify(duly.Source("standard-webhooks", secret), headers, body)


def test_a_signed_message_is_genuine_to_duly_s_own_receiver() -> None:
    headers = dict(StandardSigner(NEW).headers(message()))
    assert verified(headers, NEW).id == "msg-1"
    with pytest.raises(duly.errors.Rejected):
        verified(headers, OLD)
    with pytest.raises(duly.errors.Rejected):
        verified(headers, NEW, b'{"a":2}')


def test_while_a_key_is_exchanged_receivers_of_both_keys_are_content() -> None:
    headers = dict(StandardSigner([OLD, NEW]).headers(message()))
    assert headers["webhook-signature"].count("v1,") == 2
    assert verified(headers, OLD).id == verified(headers, NEW).id == "msg-1"


def test_public_keys_verify_what_private_ones_sign_beside_shared_ones() -> None:
    private, public = pair()
    headers = dict(StandardSigner([OLD, private]).headers(message()))
    assert "v1a," in headers["webhook-signature"]
    assert verified(headers, public).id == verified(headers, OLD).id == "msg-1"


def test_a_key_signs_no_more_after_its_end() -> None:
    over = duly.Secret(OLD, not_after=datetime.now(UTC) - timedelta(seconds=1))
    headers = dict(StandardSigner([over, NEW]).headers(message()))
    assert headers["webhook-signature"].count("v1,") == 1
    assert verified(headers, NEW).id == "msg-1"
    with pytest.raises(duly.errors.UsageError, match="not_after"):
        StandardSigner(over).headers(message())


def test_a_message_without_a_body_is_signed_as_an_empty_one() -> None:
    assert verified(dict(StandardSigner(NEW).headers(message(None))), NEW, b"").id == "msg-1"


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("", "secret"),
        ("whsec_", "secret"),
        (pair()[1], "private"),
        (["whsec_" + base64.b64encode(os.urandom(24)).decode() for _ in range(9)], "at most 8"),
        (None, "decorator|function|secret"),
    ],
    ids=["empty", "only a prefix", "public", "too many", "no function"],
)
def test_a_key_that_cannot_sign_is_refused_when_it_is_registered(secret: Any, told: str) -> None:
    app = duly.Duly("memory:")
    with pytest.raises(duly.errors.UsageError, match=told) as refused:
        app.signer("ours", secret=secret)
    for text in secret if isinstance(secret, list) else [secret]:
        assert len(str(text)) < 10 or str(text) not in str(refused.value)
    app.close()
