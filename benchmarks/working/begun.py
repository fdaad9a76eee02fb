"""What the handlers of every contender do besides their work: say that they have begun.

The clock is the machine's, so that a time taken in one process can be compared with another's.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from time import monotonic


class Begun:
    """How many jobs have begun in this process, and when the first one did."""

    def __init__(self) -> None:
        self.first = 0.0
        self.all = threading.Event()
        self._expected = 0
        self._aloud = False
        self._numbers = count(1)  # one step of it is atomic: handlers run in threads too

    def expect(self, number: int) -> None:
        """After so many the event is set."""
        self._expected = number

    def aloud(self) -> None:
        """Print the number of each job and when it began, for those who wait for it."""
        self._aloud = True

    def note(self, job: int) -> None:
        """The first line of each handler."""
        seen = next(self._numbers)
        if seen == 1:
            self.first = monotonic()
        if self._aloud:
            os.write(1, b"%d %.9f\n" % (job, monotonic()))
        if seen == self._expected:
            self.all.set()

    def so_far(self) -> int:
        """How many have begun; counting ends with it."""
        return next(self._numbers) - 1


BEGUN = Begun()
