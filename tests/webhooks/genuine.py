"""Genuine deliveries of every provider, each with keys made from a seed."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import duly
from duly.webhooks import Signed, Source, VerifiedDelivery, provider_named, provider_names

# The first second of 2026, which the samples of the profiles speak of.
NOW = 1767225600.0
URL = "https://example.com/hooks?shop=1"
PROVIDERS = provider_names()
ASYMMETRIC = {"discord", "sendgrid"}
WHSEC = {"standard-webhooks", "svix", "gitlab"}


class Keys(NamedTuple):
    """What the receiver holds, and what the sender signs with."""

    receiver: str
    sender: str


def keys(provider: str, seed: str = "the one seed") -> Keys:
    """Keys in the form that this provider hands out."""
    raw = hashlib.sha256(seed.encode()).digest()
    if provider == "discord":
        public = Ed25519PrivateKey.from_private_bytes(raw).public_key()
        return Keys(public.public_bytes(Encoding.Raw, PublicFormat.Raw).hex(), raw.hex())
    if provider == "sendgrid":
        return ecdsa_keys(raw)
    if provider in WHSEC:
        shared = "whsec_" + base64.b64encode(raw).decode()
    else:
        shared = raw.hex() if provider == "adyen" else seed
    return Keys(shared, shared)


def ecdsa_keys(raw: bytes) -> Keys:
    """A pair as base64 DER, as SendGrid's settings show the public half."""
    private = derive_private_key(int.from_bytes(raw[:31], "big"), SECP256R1())
    secret = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Keys(base64.b64encode(public).decode(), base64.b64encode(secret).decode())


def source(provider: str, seed: str = "the one seed", **options: Any) -> Source:
    """A source of this provider."""
    return Source(provider, keys(provider, seed).receiver, url=URL, **options)


def delivered(
    provider: str, body: bytes | None = None, seed: str = "the one seed", **options: Any
) -> Signed:
    """A genuine delivery, of the profile's sample unless a body is given."""
    raw = provider_named(provider).sample if body is None else body
    told: dict[str, Any] = {"now": NOW, "url": URL}
    return duly.sign(provider, raw, keys(provider, seed).sender, **(told | options))


def verified(where: Source, signed: Signed, **changed: Any) -> VerifiedDelivery:
    """What the gate makes of a delivery."""
    told: dict[str, Any] = {
        "headers": signed.headers,
        "body": signed.body,
        "url": signed.url,
        "now": NOW,
    }
    return duly.verify(where, method=signed.method, **(told | changed))
