"""Identifiers: random tokens that never repeat, and time-ordered UUIDs."""

from __future__ import annotations

import secrets
import time
import uuid


def new_token() -> bytes:
    """Sixteen random bytes that name one holder of one lease; never a worker's name."""
    return secrets.token_bytes(16)


def new_id() -> str:
    """A UUID version 7 as text, as the tables show it.

    Made from random bytes directly: one is needed for each event and each job.
    """
    tail = secrets.token_hex(10)
    head = f"{time.time_ns() // 1_000_000:012x}"
    variant = "89ab"[int(tail[3], 16) & 3]
    return f"{head[:8]}-{head[8:]}-7{tail[:3]}-{variant}{tail[4:7]}-{tail[7:19]}"


def uuid7() -> uuid.UUID:
    """A UUID version 7: milliseconds first, so that new rows land next to each other."""
    return uuid.UUID(new_id())
