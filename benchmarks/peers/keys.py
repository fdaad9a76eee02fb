"""Keys as the peers name them."""

from __future__ import annotations

import hashlib
import secrets

SCOPE = "bench"
MICROSECONDS = 1_000_000
TTL = 30 * 24 * 3600 * MICROSECONDS
LEASE = 60 * MICROSECONDS
NUMBER = "number"


def digest(key: str) -> bytes:
    """What names a key in its scope."""
    return hashlib.sha256(f"{len(SCOPE)}:{SCOPE}{key}".encode()).digest()


def token() -> bytes:
    """What names the holder of a claim."""
    return secrets.token_bytes(16)


def ordered(version: int) -> bytes:
    """A version as bytes that sort like the number."""
    return version.to_bytes(8, "big")
