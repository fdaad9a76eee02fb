"""Identifiers: random tokens that never repeat, and time-ordered UUIDs."""

from __future__ import annotations

import os
import random
import secrets
import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Of the 80 random bits four make room for the version, which stands before the others, and two
# say how the rest is to be read.
MASK = (1 << 80) - 1 - (0x3 << 62)
VARIANT = 0x2 << 62


def new_token() -> bytes:
    """Sixteen random bytes that name one holder of one lease; never a worker's name."""
    return secrets.token_bytes(16)


# Ids must never repeat and need not be secret: tokens are what must not be guessed.
RANDOM = random.Random(secrets.randbits(256))  # noqa: S311
os.register_at_fork(after_in_child=lambda: RANDOM.seed(secrets.randbits(256)))


def new_id(dice: random.Random = RANDOM, time_ns: Callable[[], int] = time.time_ns) -> str:
    """A UUID version 7 as text, as the tables show it: new rows land next to each other.

    Not through `uuid`: one is needed for each event and each job.
    """
    head = f"{time_ns() // 1_000_000:012x}"
    tail = f"{dice.getrandbits(80) & MASK | VARIANT:020x}"
    return f"{head[:8]}-{head[8:]}-7{tail[:3]}-{tail[4:8]}-{tail[8:]}"


def uuid7() -> uuid.UUID:
    """A UUID version 7: milliseconds first, so that new rows land next to each other."""
    return uuid.UUID(new_id())
