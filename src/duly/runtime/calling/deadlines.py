"""One deadline for a whole request: from the first look at a name to the last byte of the answer.

HTTP clients bound each read and write for itself, so that a peer who sends a byte now and then
holds them for ever. Here every step gets what is left of one bound.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpcore

UNTIL: ContextVar[float | None] = ContextVar("duly_until", default=None)


@contextmanager
def ending(until: float) -> Iterator[None]:
    """Whatever waits inside waits no longer than until then, by the clock that never jumps."""
    token = UNTIL.set(until)
    try:
        yield
    finally:
        UNTIL.reset(token)


def left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
    """What a step may take: its own timeout, or what is left; raises where nothing is."""
    until = UNTIL.get()
    if until is None:
        return timeout
    rest = until - time.monotonic()
    if rest <= 0:
        raise late("the deadline of the whole request has passed")
    return rest if timeout is None else min(timeout, rest)
