"""A key for every scheme, the same in every run: what to sign with, verify with, and check with.

They are made from fixed numbers, so that an input that a fuzzer found means the same tomorrow.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from duly.webhooks import (
    BasicAuth,
    Ecdsa,
    Ed25519,
    Hmac,
    Jwt,
    PlainDigest,
    SharedToken,
    SignedFields,
    StandardWebhooks,
)

RAW = hashlib.sha256(b"a key for tests").digest()
TEXT = "a key for tests: é"
TOKEN = "token-for-tests"
BASIC = "user:password"
CURVES: dict[str, ec.EllipticCurve] = {
    "sha256": ec.SECP256R1(),
    "sha384": ec.SECP384R1(),
    "sha512": ec.SECP521R1(),
}


@dataclass(frozen=True, slots=True)
class Keys:
    """One key in three forms; ``plain`` is what the standard library or `cryptography` takes."""

    signer: str
    verifier: str
    plain: Any


def seed(name: str, length: int) -> bytes:
    return hashlib.shake_256(name.encode()).digest(length)


def shared(form: str) -> Keys:
    """A shared secret as this form writes it."""
    texts = {
        "text": (TEXT, TEXT.encode()),
        "hex": (RAW.hex(), RAW),
        "base64": (base64.b64encode(RAW).decode(), RAW),
        "whsec": ("whsec_" + base64.b64encode(RAW).decode(), RAW),
    }
    text, raw = texts[form]
    return Keys(text, text, raw)


def of_private(private: Any) -> Keys:
    """A key pair in PEM."""
    form = PrivateFormat.PKCS8
    signer = private.private_bytes(Encoding.PEM, form, NoEncryption()).decode().strip()
    public = private.public_key()
    verifier = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Keys(signer, verifier.decode().strip(), public)


@cache
def edwards() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(seed("ed25519", 32))


@cache
def curve(digest: str) -> Keys:
    chosen = CURVES[digest]
    number = int.from_bytes(seed(chosen.name, 31), "big")
    return of_private(ec.derive_private_key(number, chosen))


@cache
def rivest() -> Keys:
    """An RSA key of 2,048 bits from two primes that are always the same."""
    first, second = prime("p"), prime("q")
    exponent = 65_537
    private = pow(exponent, -1, (first - 1) * (second - 1))
    numbers = rsa.RSAPrivateNumbers(
        first,
        second,
        private,
        private % (first - 1),
        private % (second - 1),
        pow(second, -1, first),
        rsa.RSAPublicNumbers(exponent, first * second),
    )
    return of_private(numbers.private_key())


def prime(name: str) -> int:
    """The first probable prime of 1,024 bits from a fixed place on."""
    small = [one for one in range(3, 2000, 2) if all(one % two for two in range(3, one, 2))]
    number = int.from_bytes(seed(name, 128), "big") | (3 << 1022) | 1
    while any(number % one == 0 for one in small) or any(
        pow(base, number - 1, number) != 1 for base in (2, 3, 5, 7)
    ):
        number += 2
    return number


def edwards_in_hex() -> Keys:
    public = edwards().public_key()
    return Keys(seed("ed25519", 32).hex(), public.public_bytes_raw().hex(), public)


def edwards_for_webhooks() -> Keys:
    """A key pair of Standard Webhooks v1a."""
    public = edwards().public_key()
    texts = [base64.b64encode(one).decode() for one in (seed("ed25519", 32), public_bytes())]
    return Keys("whsk_" + texts[0], "whpk_" + texts[1], public)


def public_bytes() -> bytes:
    return edwards().public_key().public_bytes_raw()


def keys_of(scheme: object) -> Keys:
    """A key of the kind that a scheme needs."""
    match scheme:
        case Hmac() | SignedFields():
            return shared(scheme.secret)
        case PlainDigest():
            return shared("text")
        case StandardWebhooks():
            return shared("whsec")
        case SharedToken() | BasicAuth():
            text = TOKEN if isinstance(scheme, SharedToken) else BASIC
            return Keys(text, text, text.encode())
        case _:
            return pair_of(scheme)


def pair_of(scheme: object) -> Keys:
    """The same for schemes that have public keys, some of them or all."""
    match scheme:
        case Ed25519():
            return edwards_in_hex()
        case Ecdsa():
            return curve(scheme.digest)
        case Jwt():
            return for_tokens(scheme.algorithms[0])
        case _:
            raise NotImplementedError(f"the keyring has no key for {scheme!r}")


def for_tokens(algorithm: str) -> Keys:
    if algorithm.startswith("HS"):
        return shared("text")
    if algorithm.startswith("RS"):
        return rivest()
    return of_private(edwards()) if algorithm == "EdDSA" else curve("sha" + algorithm[2:])
