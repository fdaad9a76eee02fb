"""A worker minded to its end, by a thread that does nothing else.

It stands beside the worker, so that a handler which blocks everything there cannot keep a signal
from being heard.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from typing import TYPE_CHECKING

from duly._kernel.errors import DulyError
from duly.tools.serving.endings import FAILED, LAST, leave_at_once, start_anew

if TYPE_CHECKING:
    from duly.app import Duly
    from duly.runtime.hosting import Hosted
    from duly.runtime.tally import Worked
    from duly.tools.serving.endings import Line

logger = logging.getLogger("duly.worker")
COUNTED = ("done", "stale", "again", "dead", "lost", "rescued")
# Signals within so many seconds are one: some supervisors tell the process and then its group.
TOGETHER = 0.1
# Seconds that threads without work need to end.
TIDYING = 0.5


class Minder:
    """Tells a worker what signals say, and waits for its end."""

    def __init__(self, worker: Hosted, line: Line, grace: float) -> None:
        self._worker = worker
        self._line = line
        self._grace = grace
        self._told = 0
        self._code = 0
        self._last = 0.0
        self._due: float | None = None

    def run(self, app: Duly) -> int:
        """Until the worker has ended and the application is closed; returns the exit code."""
        while not self._worker.wait(0):
            left = None if self._due is None else max(self._due - time.monotonic(), 0.0)
            ready, _, _ = select.select([self._line.reader], [], [], left)
            if not ready:
                logger.error("gave up: jobs could not be given back, their leases will run out")
                leave_at_once(self._code or FAILED)
            for number in self._line.read():
                self._tell(number)
        return self._ended(app)

    def _tell(self, number: int) -> None:
        now = time.monotonic()
        if self._told and now - self._last < TOGETHER:
            return
        self._last = now
        self._told += 1
        if self._told == 1:
            logger.info("draining: jobs that run are finished, the others are given back")
            self._worker.stop()
            self._due = now + self._grace + LAST
        elif self._told == 2:
            logger.warning("giving back the jobs that run")
            self._worker.stop_now()
            self._code, self._due = 128 + number, now + LAST
        else:
            leave_at_once(128 + number)

    def _ended(self, app: Duly) -> int:
        """Close the application; or leave it as it is, where handlers hang that may hold it."""
        worked, problem = self._worker.worked, self._worker.problem
        if problem is not None:
            self._code = self._code or FAILED
            trace = None if isinstance(problem, DulyError) else problem
            logger.error("the worker has failed: %s", problem, exc_info=trace)
        elif worked is not None:
            told = summary(worked) or "there was nothing to do"
            logger.info("ended: %s", told, extra={"members": counts(worked)})
            if worked.stuck and not self._told:
                start_anew()
        if hanging():
            leave_at_once(self._code)
        app.close()
        return self._code


def summary(worked: Worked) -> str:
    """What became of the jobs, as far as there were any."""
    return ", ".join(f"{count} {name}" for name, count in counts(worked).items() if count)


def counts(worked: Worked) -> dict[str, int]:
    """The same by name."""
    return {name: getattr(worked, name) for name in COUNTED}


def hanging() -> bool:
    """Whether handlers run that were given up: nothing waits for them, and nothing stops them."""
    due = time.monotonic() + TIDYING
    hands = [thread for thread in threading.enumerate() if thread.name == "duly-hand"]
    for thread in hands:
        thread.join(max(due - time.monotonic(), 0.0))
    return any(thread.is_alive() for thread in hands)
