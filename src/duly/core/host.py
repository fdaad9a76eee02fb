"""What a service takes from the machine that it runs on: seconds, random numbers and ids.

Worker, relay and receiver are handed one, and hand it to what they build. None of them asks `time`
or `random` itself, so that the simulation can run them by a clock and dice of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from duly.core import ids

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


class Deadline(NamedTuple):
    """A moment on a clock that never jumps."""

    monotonic: Callable[[], float]
    until: float

    def seconds_left(self) -> float:
        """Seconds until then; less than zero once it has passed."""
        return self.until - self.monotonic()

    def after(self, seconds: float) -> Deadline:
        """The moment so many seconds from now, on the same clock."""
        return Deadline(self.monotonic, self.monotonic() + seconds)


class Host(NamedTuple):
    """One machine.

    Args:
        monotonic: seconds on a clock that never jumps.
        time_ns: nanoseconds since 1970, on the clock that people set.
        random: for jitter, shuffles and ids.
    """

    monotonic: Callable[[], float] = time.monotonic
    time_ns: Callable[[], int] = time.time_ns
    random: random.Random = ids.RANDOM

    def deadline_in(self, seconds: float) -> Deadline:
        """The moment so many seconds from now."""
        return Deadline(self.monotonic, self.monotonic() + seconds)

    def new_id(self) -> str:
        """A UUID version 7 as text, for a new row."""
        return ids.new_id(self.random, self.time_ns)


HOST = Host()
