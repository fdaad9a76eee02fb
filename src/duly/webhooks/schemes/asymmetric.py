"""Schemes where the receiver only holds a public key: Ed25519 and ECDSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.webhooks.schemes.encodings import ENCODERS, decode_signature
from duly.webhooks.schemes.public_keys import (
    ecdsa_private,
    ecdsa_public,
    ed25519_private,
    ed25519_public,
)
from duly.webhooks.schemes.signature import Signature
from duly.webhooks.secrets import starts_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

    from duly.webhooks.secrets import Secret

HASHES = {"sha256": "SHA256", "sha384": "SHA384", "sha512": "SHA512"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ed25519(Signature["Ed25519PublicKey"]):
    """An Ed25519 signature over a template; the public key verifies, the private one signs."""

    def key(self, secret: Secret) -> Ed25519PublicKey:
        return ed25519_public(secret)

    def only_verifies(self, secret: Secret) -> bool:
        return not starts_with(secret, "whsk_")

    def matches(
        self, key: Ed25519PublicKey, contents: Sequence[bytes], candidates: Sequence[bytes]
    ) -> bool:
        signatures = [decode_signature(self.encoding, one) for one in candidates]
        tried = [
            is_valid_ed25519(key, signature, content)
            for content in contents
            for signature in signatures
            if signature is not None
        ]
        return any(tried)

    def make_signature(self, secret: Secret, content: bytes) -> bytes:
        signature = ed25519_private(secret).sign(content)
        return self.prefix.encode() + ENCODERS[self.encoding](signature)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecdsa(Signature["EllipticCurvePublicKey"]):
    """An ECDSA signature in DER over a template; the curve is the key's own."""

    digest: str = "sha256"

    def __post_init__(self) -> None:
        super(Ecdsa, self).__post_init__()
        if self.digest not in HASHES:
            raise UsageError(f"digest must be one of {', '.join(HASHES)}, not {self.digest!r:.40}")

    def key(self, secret: Secret) -> EllipticCurvePublicKey:
        return ecdsa_public(secret)

    def only_verifies(self, secret: Secret) -> bool:  # noqa: ARG002
        return True

    def matches(
        self, key: EllipticCurvePublicKey, contents: Sequence[bytes], candidates: Sequence[bytes]
    ) -> bool:
        signatures = [decode_signature(self.encoding, one) for one in candidates]
        tried = [
            is_valid_ecdsa(key, signature, content, self.digest)
            for content in contents
            for signature in signatures
            if signature is not None
        ]
        return any(tried)

    def make_signature(self, secret: Secret, content: bytes) -> bytes:
        key = ecdsa_private(secret)  # first: it says what to install where that is missing
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

        signature = key.sign(content, ECDSA(hash_named(self.digest)))
        return self.prefix.encode() + ENCODERS[self.encoding](signature)


def is_valid_ed25519(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    """Whether a signature is the key's over this content."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def is_valid_ecdsa(
    key: EllipticCurvePublicKey, signature: bytes, content: bytes, digest: str
) -> bool:
    """The same for ECDSA; bytes that are no DER are as wrong as a wrong signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    try:
        key.verify(signature, content, ECDSA(hash_named(digest)))
    except InvalidSignature:
        return False
    return True


def hash_named(name: str) -> HashAlgorithm:
    """A hash of the cryptography library."""
    from cryptography.hazmat.primitives import hashes

    chosen: HashAlgorithm = getattr(hashes, HASHES[name])()
    return chosen
