"""A log that does not drown: what is said again and again is said once and then counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

# Seconds in which the same is not said twice.
PAUSE = 10.0
# More different messages than that in one pause are not one problem.
MOST = 100


class Seldom:
    """Errors of an outage, of which a busy receiver has thousands a second."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: dict[str, tuple[float, int]] = {}

    def error(self, message: str) -> None:
        """Say it, or count it if it was said a moment ago."""
        now = time.monotonic()
        before, times = self._said.get(message, (0.0, 0))
        if before and now - before < PAUSE:
            self._said[message] = (before, times + 1)
            return
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[message] = (now, 0)
        more = f" (and {times} times more since)" if times else ""
        self._logger.error("%s%s", message, more)
