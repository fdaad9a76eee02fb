"""Keys of the asymmetric schemes, read from the forms in which providers hand them out.

The arithmetic is the `cryptography` library's (extra ``crypto``), imported when the first such key
is made ready.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.webhooks.schemes.encodings import lenient_base64, lenient_hex

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    from duly.webhooks.secrets import Secret

Found = TypeVar("Found")

WHAT = "cryptography"
SAFE_RSA = 2048
CURVES = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}


def load_key(secret: Secret, read: Callable[[Any], Found | None], form: str) -> Found:
    """The key behind a secret, or what it must look like; no frame that raises holds the value."""
    with needs("crypto", WHAT):
        import cryptography  # noqa: F401
    key = try_load_key(secret, read)
    if key is None:
        raise UsageError(f"the key {secret.name!r} must be {form}: copy it again from its settings")
    return key


def try_load_key(secret: Secret, read: Callable[[Any], Found | None]) -> Found | None:
    """The key, or nothing."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return read(secret.reveal())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def ed25519_public(secret: Secret) -> Ed25519PublicKey:
    """The key to verify Ed25519 with."""
    return load_key(
        secret, read_ed25519_public, "an Ed25519 public key: whpk_ and base64, hex, PEM or a JWK"
    )


def ed25519_private(secret: Secret) -> Ed25519PrivateKey:
    """The key to sign Ed25519 with."""
    return load_key(
        secret, read_ed25519_private, "an Ed25519 private key: whsk_ and base64, hex or PEM"
    )


def ecdsa_public(secret: Secret) -> EllipticCurvePublicKey:
    """The key to verify ECDSA with."""
    return load_key(secret, read_ecdsa_public, "an ECDSA public key: base64 DER, PEM or a JWK")


def ecdsa_private(secret: Secret) -> EllipticCurvePrivateKey:
    """The key to sign ECDSA with."""
    return load_key(secret, read_ecdsa_private, "an ECDSA private key: base64 DER or PEM")


def any_public(secret: Secret) -> Any:
    """A public key of any kind, for tokens that name their own algorithm."""
    return load_key(secret, read_any_public, "a public key: PEM, base64 DER or a JWK")


def any_private(secret: Secret) -> Any:
    """A private key of any kind."""
    return load_key(secret, read_any_private, "a private key: PEM or base64 DER")


def read_ed25519_public(value: Any) -> Ed25519PublicKey | None:
    """Of a private key, the public half."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if isinstance(value, str) and value.startswith("whsk_"):
        private = read_ed25519_private(value)
        return None if private is None else private.public_key()
    raw = raw_key(value, "whpk_")
    key = Ed25519PublicKey.from_public_bytes(raw) if raw else read_any_public(value)
    return key if isinstance(key, Ed25519PublicKey) else None


def read_ed25519_private(value: Any) -> Ed25519PrivateKey | None:
    """Raw bytes in any of their texts, or PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = raw_key(value, "whsk_")
    if raw is not None:
        return Ed25519PrivateKey.from_private_bytes(raw)
    key = read_any_private(value)
    return key if isinstance(key, Ed25519PrivateKey) else None


def raw_key(value: Any, prefix: str) -> bytes | None:
    """The 32 bytes of an Ed25519 key; some senders append the public half to the private one."""
    if isinstance(value, bytes):
        raw: bytes | None = value
    elif isinstance(value, str) and value.startswith(prefix):
        raw = lenient_base64(value.removeprefix(prefix))
    elif isinstance(value, str) and len(value) == 64:
        raw = lenient_hex(value)
    else:
        raw = lenient_base64(value) if isinstance(value, str) else None
    if raw is not None and len(raw) == 64 and prefix == "whsk_":
        raw = raw[:32]
    # Nought and one are no keys: under them anything is signed.
    weak = prefix == "whpk_" and raw in (bytes(32), b"\1" + bytes(31))
    return raw if raw is not None and len(raw) == 32 and not weak else None


def read_ecdsa_public(value: Any) -> EllipticCurvePublicKey | None:
    """Any form of a public key, if it lies on a curve."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    key = read_any_public(value)
    return key if isinstance(key, EllipticCurvePublicKey) else None


def read_ecdsa_private(value: Any) -> EllipticCurvePrivateKey | None:
    """Any form of a private key, if it lies on a curve."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    key = read_any_private(value)
    return key if isinstance(key, EllipticCurvePrivateKey) else None


def read_any_public(value: Any) -> Any:
    """PEM, DER, DER in base64, or a JSON Web Key."""
    from cryptography.hazmat.primitives.serialization import (
        load_der_public_key,
        load_pem_public_key,
    )

    if isinstance(value, Mapping):
        return public_of_jwk(value)
    raw = key_file_bytes(value)
    key = load_pem_public_key(raw) if raw.startswith(b"-----") else load_der_public_key(raw)
    if getattr(key, "key_size", SAFE_RSA) < SAFE_RSA and key.__class__.__name__.startswith("RSA"):
        raise ValueError
    return key


def read_any_private(value: Any) -> Any:
    """PEM, DER, or DER in base64, without a password."""
    from cryptography.hazmat.primitives.serialization import (
        load_der_private_key,
        load_pem_private_key,
    )

    raw = key_file_bytes(value)
    if raw.startswith(b"-----"):
        return load_pem_private_key(raw, password=None)
    return load_der_private_key(raw, password=None)


def key_file_bytes(value: Any) -> bytes:
    """The bytes of a key file: PEM as it is, base64 decoded, bytes untouched."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError
    if value.startswith("-----"):
        return value.encode()
    raw = lenient_base64(value)
    if raw is None:
        raise ValueError
    return raw


def public_of_jwk(jwk: Mapping[str, Any]) -> Any:
    """The public key of a JSON Web Key; one that carries its private half is refused."""
    if "d" in jwk or "k" in jwk:
        raise ValueError
    match jwk.get("kty"):
        case "OKP":
            return okp_key(jwk)
        case "EC":
            return ec_key(jwk)
        case "RSA":
            return rsa_key(jwk)
        case _:
            raise ValueError


def okp_key(jwk: Mapping[str, Any]) -> Any:
    """An Ed25519 key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if jwk.get("crv") != "Ed25519":
        raise ValueError
    return Ed25519PublicKey.from_public_bytes(octets(jwk, "x"))


def ec_key(jwk: Mapping[str, Any]) -> Any:
    """A key on one of the curves of the standard."""
    from cryptography.hazmat.primitives.asymmetric import ec

    name = CURVES.get(str(jwk.get("crv")))
    if name is None:
        raise ValueError
    curve: ec.EllipticCurve = getattr(ec, name)()
    return ec.EllipticCurvePublicNumbers(number(jwk, "x"), number(jwk, "y"), curve).public_key()


def rsa_key(jwk: Mapping[str, Any]) -> Any:
    """An RSA key of a size that is still safe."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus = number(jwk, "n")
    if modulus.bit_length() < SAFE_RSA:
        raise ValueError
    return RSAPublicNumbers(number(jwk, "e"), modulus).public_key()


def octets(jwk: Mapping[str, Any], name: str) -> bytes:
    """A member of a key, in base64url."""
    text = jwk.get(name)
    if not isinstance(text, str):
        raise TypeError
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as problem:
        raise ValueError from problem


def number(jwk: Mapping[str, Any], name: str) -> int:
    """A member of a key that is a number."""
    return int.from_bytes(octets(jwk, name), "big")
