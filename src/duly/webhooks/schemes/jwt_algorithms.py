"""The algorithms of JSON Web Tokens: each with the one kind of key that it goes with."""

from __future__ import annotations

import hmac
from typing import Any, Final

from duly.core.errors import UsageError
from duly.webhooks.schemes.asymmetric import hash_named, is_valid_ed25519
from duly.webhooks.schemes.encodings import base64url_text
from duly.webhooks.schemes.hmac import SharedKey

SHARED: Final = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}
RSA: Final = {"RS256": "sha256", "RS384": "sha384", "RS512": "sha512"}
# The curve, its digest, and the bytes of one of the two numbers of a signature.
CURVES: Final = {
    "ES256": ("secp256r1", "sha256", 32),
    "ES384": ("secp384r1", "sha384", 48),
    "ES512": ("secp521r1", "sha512", 66),
}
ALGORITHMS: Final = (*SHARED, *RSA, *CURVES, "EdDSA")


def is_valid_signature(algorithm: str, key: Any, signature: bytes, signed: bytes) -> bool:
    """Whether the signature is this key's; a key of another kind never fits."""
    if algorithm in SHARED:
        return isinstance(key, SharedKey) and hmac.compare_digest(
            hmac.digest(key.raw, signed, SHARED[algorithm]), signature
        )
    if algorithm in RSA:
        return is_valid_rsa(key, signature, signed, RSA[algorithm])
    if algorithm in CURVES:
        return is_valid_ecdsa(algorithm, key, signature, signed)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return isinstance(key, Ed25519PublicKey) and is_valid_ed25519(key, signature, signed)


def is_valid_rsa(key: Any, signature: bytes, signed: bytes, digest: str) -> bool:
    """RSA with PKCS #1 v1.5, as tokens use it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if not isinstance(key, RSAPublicKey):
        return False
    try:
        key.verify(signature, signed, PKCS1v15(), hash_named(digest))
    except InvalidSignature:
        return False
    return True


def is_valid_ecdsa(algorithm: str, key: Any, signature: bytes, signed: bytes) -> bool:
    """ECDSA with its two numbers side by side, as tokens carry it."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    from duly.webhooks.schemes.asymmetric import is_valid_ecdsa

    curve, digest, size = CURVES[algorithm]
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name != curve:
        return False
    if len(signature) != 2 * size:
        return False
    first, second = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
    return is_valid_ecdsa(key, encode_dss_signature(first, second), signed, digest)


def make_signature(algorithm: str, key: Any, signed: bytes) -> bytes:
    """A signature in base64url, with a shared secret or a private key of the right kind."""
    try:
        return base64url_text(make_raw_signature(algorithm, key, signed))
    except (AttributeError, TypeError) as problem:
        raise UsageError(f"{algorithm} must be signed with a private key of its kind") from problem


def make_raw_signature(algorithm: str, key: Any, signed: bytes) -> bytes:
    """The same as bytes."""
    if algorithm in SHARED:
        return hmac.digest(key.raw, signed, SHARED[algorithm])
    if algorithm in RSA:
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

        signature: bytes = key.sign(signed, PKCS1v15(), hash_named(RSA[algorithm]))
        return signature
    if algorithm in CURVES:
        return make_ecdsa_signature(algorithm, key, signed)
    made_by_edwards: bytes = key.sign(signed)
    return made_by_edwards


def make_ecdsa_signature(algorithm: str, key: Any, signed: bytes) -> bytes:
    """The two numbers of a signature side by side."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    _, digest, size = CURVES[algorithm]
    first, second = decode_dss_signature(key.sign(signed, ECDSA(hash_named(digest))))
    return first.to_bytes(size, "big") + second.to_bytes(size, "big")
