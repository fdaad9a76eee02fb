"""A log throttle: a message that repeats is logged once and then counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

# Seconds between two lines of the same message.
PAUSE = 10.0
# More different messages than this at a time are not one problem.
MOST = 100


class LogThrottle:
    """Logs the errors of an outage, of which a busy receiver has thousands a second."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._last_logged: dict[str, tuple[float, int]] = {}

    def error(self, message: str) -> None:
        """Log a message, or count it if it was logged a moment ago."""
        times = self._count_suppressed(message)
        if times is not None:
            self._logger.error("%s%s", message, more_times(times))

    def warning(self, message: str, *, about: str) -> None:
        """Log a message that differs each time, or count it; ``about`` is what it is known by."""
        times = self._count_suppressed(about)
        if times is not None:
            self._logger.warning("%s%s", message, more_times(times))

    def _count_suppressed(self, key: str) -> int | None:
        """How often it was only counted since it was logged; None to count it now."""
        now = time.monotonic()
        before, times = self._last_logged.get(key, (0.0, 0))
        if before and now - before < PAUSE:
            self._last_logged[key] = (before, times + 1)
            return None
        if len(self._last_logged) >= MOST:
            self._last_logged.clear()
        self._last_logged[key] = (now, 0)
        return times


def more_times(times: int) -> str:
    """The end of a line for a message that was held back so many times."""
    return f" (and {times} times more since)" if times else ""
