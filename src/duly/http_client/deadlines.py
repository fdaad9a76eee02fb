"""One deadline for a whole request: from name resolution to the last byte of the response.

HTTP clients bound each read and write by itself, so that a server which sends a byte now and then
holds them for ever. Here every step gets what is left of one bound.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import httpcore

if TYPE_CHECKING:
    from collections.abc import Iterator

UNTIL: ContextVar[float | None] = ContextVar("duly_until", default=None)
# Bytes that may still be read of a response head.
HEAD: ContextVar[list[int] | None] = ContextVar("duly_head", default=None)
MOST_OF_A_HEAD = 64 * 1024
PIECE = 16 * 1024


@contextmanager
def request_deadline(until: float) -> Iterator[None]:
    """Bound every wait inside by a deadline, in seconds of ``time.monotonic``."""
    token = UNTIL.set(until)
    try:
        yield
    finally:
        UNTIL.reset(token)


def time_left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
    """Seconds for one step: its own timeout, or what is left of the deadline; raise at zero."""
    until = UNTIL.get()
    if until is None:
        return timeout
    rest = until - time.monotonic()
    if rest <= 0:
        raise late("the deadline of the whole request has passed")
    return rest if timeout is None else min(timeout, rest)


@contextmanager
def limited_head() -> Iterator[None]:
    """Bound what is read inside as a response head: some never end."""
    token = HEAD.set([MOST_OF_A_HEAD])
    try:
        yield
    finally:
        HEAD.reset(token)


def read_size(most: int) -> int:
    """Bytes to read at once: few of a head, so that parsing it does not hold up the loop."""
    return most if HEAD.get() is None else min(most, PIECE)


def count_head_bytes(read: bytes) -> bytes:
    """Return what was read; raise where the head is too long."""
    left_of_head = HEAD.get()
    if left_of_head is not None:
        left_of_head[0] -= len(read)
        if left_of_head[0] < 0:
            raise httpcore.ReadError(f"the head of the response is over {MOST_OF_A_HEAD:,} bytes")
    return read
