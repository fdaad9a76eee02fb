"""Identifiers: random tokens that never repeat, and time-ordered UUIDs."""

from __future__ import annotations

import secrets
import time
import uuid


def new_token() -> bytes:
    """Sixteen random bytes that name one holder of one lease; never a worker's name."""
    return secrets.token_bytes(16)


def uuid7() -> uuid.UUID:
    """A UUID version 7: milliseconds first, so that new rows land next to each other."""
    milliseconds = time.time_ns() // 1_000_000
    number = (milliseconds & ((1 << 48) - 1)) << 80
    number |= secrets.randbits(80)
    number = number & ~(0xF << 76) | (0x7 << 76)
    number = number & ~(0x3 << 62) | (0x2 << 62)
    return uuid.UUID(int=number)
