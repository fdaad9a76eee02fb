"""One deadline for a whole request: from the first look at a name to the last byte of the answer.

HTTP clients bound each read and write for itself, so that a peer who sends a byte now and then
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
# What may still be read of the head of an answer.
HEAD: ContextVar[list[int] | None] = ContextVar("duly_head", default=None)
MOST_OF_A_HEAD = 64 * 1024
PIECE = 16 * 1024


@contextmanager
def request_deadline(until: float) -> Iterator[None]:
    """Whatever waits inside waits no longer than until then, by the clock that never jumps."""
    token = UNTIL.set(until)
    try:
        yield
    finally:
        UNTIL.reset(token)


def time_left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
    """What a step may take: its own timeout, or what is left; raises where nothing is."""
    until = UNTIL.get()
    if until is None:
        return timeout
    rest = until - time.monotonic()
    if rest <= 0:
        raise late("the deadline of the whole request has passed")
    return rest if timeout is None else min(timeout, rest)


@contextmanager
def limited_head() -> Iterator[None]:
    """What is read inside is the head of an answer, and bounded: some never come to its end."""
    token = HEAD.set([MOST_OF_A_HEAD])
    try:
        yield
    finally:
        HEAD.reset(token)


def read_size(most: int) -> int:
    """How much to read at once: little of a head, so that nobody waits while it is parsed."""
    return most if HEAD.get() is None else min(most, PIECE)


def count_head_bytes(read: bytes) -> bytes:
    """What was read, if a head may still be that long."""
    left_of_head = HEAD.get()
    if left_of_head is not None:
        left_of_head[0] -= len(read)
        if left_of_head[0] < 0:
            raise httpcore.ReadError(f"the head of the answer is over {MOST_OF_A_HEAD:,} bytes")
    return read
