"""Signatures, keys and signed times as text: hex, base64 and plain digits, read strictly."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Final

from duly.core.errors import Code, Rejected, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def base64_text(raw: bytes) -> bytes:
    """Standard base64, padded."""
    return binascii.b2a_base64(raw, newline=False)


def base64url_text(raw: bytes) -> bytes:
    """The alphabet for URLs, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


# How the bytes of a signature are written.
ENCODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": binascii.hexlify,
    "base64": base64_text,
    "base64url": base64url_text,
}


def decode_signature(encoding: str, text: bytes) -> bytes | None:
    """The bytes of a signature, or None where the text is not what the encoder would write."""
    try:
        if encoding == "hex":
            raw = bytes.fromhex(text.decode("ascii"))
            return raw if raw.hex().encode() == text.lower() else None
        if encoding == "base64":
            raw = binascii.a2b_base64(text, strict_mode=True)
        else:
            raw = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return None
    return raw if ENCODERS[encoding](raw) == text else None


def lenient_base64(text: str) -> bytes | None:
    """The bytes of a key in base64, standard or URL-safe alphabet, padded or not."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except (ValueError, binascii.Error):
        return None
    return raw or None


def lenient_hex(text: str) -> bytes | None:
    """The bytes of a key in hex, in either case."""
    try:
        return (bytes.fromhex(text) or None) if text.isalnum() else None
    except ValueError:
        return None


def checked_encoding(encoding: str) -> str:
    """An encoding that is known."""
    if encoding not in ENCODERS:
        raise UsageError(f"encoding must be one of {', '.join(ENCODERS)}, not {encoding!r:.40}")
    return encoding


def checked_digest(name: str) -> str:
    """A digest of the standard library by its name."""
    if name not in hashlib.algorithms_guaranteed or name.startswith("shake"):
        raise UsageError(f"digest must be the name of a hash such as 'sha256', not {name!r:.40}")
    return name


def is_key_file(raw: bytes) -> bool:
    """Whether bytes are a key of the asymmetric kind: PEM, or the DER of an Ed25519 public key."""
    pem = raw.startswith(b"-----BEGIN ") and b"-----END " in raw
    return pem or raw.startswith(bytes.fromhex("302a300506032b6570032100"))


# Per second, with room until the year 33658; the finer units need their own digits on top.
UNITS = {"s": (1, 12), "ms": (1_000, 15), "us": (1_000_000, 18)}


def checked_unit(unit: str) -> str:
    """A unit that is known."""
    if unit not in UNITS:
        raise UsageError(f"unit must be one of {', '.join(UNITS)}, not {unit!r:.40}")
    return unit


def parse_timestamp(timestamp: bytes, unit: str) -> float:
    """A timestamp as seconds since 1970. No signs, spaces, dots, underscores or exponents."""
    per_second, digits = UNITS[unit]
    if not timestamp.isdigit() or len(timestamp) > digits:
        raise Rejected(Code.MALFORMED, "the timestamp is not a plain number")
    return int(timestamp) / per_second


def format_timestamp(timestamp: int, unit: str) -> bytes:
    """Whole seconds as this sender writes them."""
    return str(timestamp * UNITS[unit][0]).encode()
