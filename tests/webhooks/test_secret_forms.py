"""A secret is read in every form in which senders hand it out."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

import duly
from duly import Secret, Source
from duly.errors import UsageError
from tests.webhooks.genuine import NOW, delivered, keys, verified

RAW = bytes(range(200, 232))  # in base64 it needs padding, and both letters that differ by alphabet
PRIVATE = Ed25519PrivateKey.from_private_bytes(RAW)
PUBLIC = PRIVATE.public_key()
PUBLIC_RAW = PUBLIC.public_bytes(Encoding.Raw, PublicFormat.Raw)
STANDARD, SAFE = base64.b64encode(RAW).decode(), base64.urlsafe_b64encode(RAW).decode()
SPKI = PublicFormat.SubjectPublicKeyInfo
SHARED_FORMS: dict[str, Any] = {
    "padded": "whsec_" + STANDARD,
    "unpadded": "whsec_" + STANDARD.rstrip("="),
    "url-safe": "whsec_" + SAFE,
    "url-safe, unpadded": "whsec_" + SAFE.rstrip("="),
    "without its prefix": STANDARD,
    "raw": RAW,
}
PUBLIC_FORMS: dict[str, Any] = {
    "whpk_": "whpk_" + base64.b64encode(PUBLIC_RAW).decode(),
    "whpk_, url-safe": "whpk_" + base64.urlsafe_b64encode(PUBLIC_RAW).decode().rstrip("="),
    "whsk_": "whsk_" + STANDARD,
    "PEM": PUBLIC.public_bytes(Encoding.PEM, SPKI).decode().strip(),
    "JWK": {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(PUBLIC_RAW).decode()},
}
PLAIN_FORMS: dict[str, Any] = PUBLIC_FORMS | {
    "hex": PUBLIC_RAW.hex(),
    "HEX": PUBLIC_RAW.hex().upper(),
    "raw": PUBLIC_RAW,
}
SIGNED = duly.sign("standard-webhooks", b"{}", RAW, now=NOW)
SIGNED_BY_KEY = duly.sign("standard-webhooks", b"{}", "whsk_" + STANDARD, now=NOW)


@pytest.mark.parametrize("form", SHARED_FORMS)
def test_a_shared_secret_is_read_in_every_form_it_is_handed_out(form: str) -> None:
    where = Source("standard-webhooks", SHARED_FORMS[form])
    assert verified(where, SIGNED).id_kind == "signed"


@pytest.mark.parametrize("form", PUBLIC_FORMS)
def test_a_public_key_is_read_in_every_form_it_is_handed_out(form: str) -> None:
    where = Source("standard-webhooks", [PUBLIC_FORMS[form], "whsec_" + STANDARD])
    assert verified(where, SIGNED_BY_KEY).secret == "1"
    assert verified(where, SIGNED).secret == "2"


@pytest.mark.parametrize("form", PLAIN_FORMS)
def test_a_public_key_of_a_plain_scheme_is_read_in_every_form(form: str) -> None:
    signed = duly.sign("discord", b"{}", RAW.hex(), now=NOW)
    assert verified(Source("discord", [PLAIN_FORMS[form]]), signed).secret == "1"


def test_an_elliptic_key_is_read_as_base64_der_pem_and_jwk() -> None:
    der = base64.b64decode(keys("sendgrid").receiver)
    public = load_der_public_key(der)
    assert isinstance(public, EllipticCurvePublicKey)
    numbers = public.public_numbers()
    x, y = (
        base64.urlsafe_b64encode(one.to_bytes(32, "big")).decode().rstrip("=")
        for one in (numbers.x, numbers.y)
    )
    jwk: dict[str, object] = {"kty": "EC", "crv": "P-256", "x": x, "y": y}
    pem = public.public_bytes(Encoding.PEM, SPKI)
    for form in (keys("sendgrid").receiver, der, pem, pem.decode().strip(), Secret(jwk)):
        assert verified(Source("sendgrid", [form]), delivered("sendgrid")).secret == "1"
    for half in ({"d": x}, {"crv": "P-384"}, {"kty": "oct"}, {"x": 5}, {"y": x}):
        with pytest.raises(UsageError, match="must be an ECDSA public key"):
            Source("sendgrid", [jwk | half])


def test_hex_is_read_in_either_case_and_bytes_are_the_key_itself() -> None:
    signed = delivered("adyen")
    for form in (keys("adyen").receiver.upper(), bytes.fromhex(keys("adyen").receiver)):
        assert verified(Source("adyen", form), signed).secret == "1"
