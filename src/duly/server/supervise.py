"""A worker or a relay minded to its end, by a thread that does nothing else.

It stands beside the other, so that a handler which blocks everything there cannot keep a signal
from being heard.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import DulyError
from duly.server.shutdown import FAILED, LAST, leave_at_once, restart_process

if TYPE_CHECKING:
    from duly.app.duly import Duly
    from duly.relay.stats import Relayed
    from duly.server.shutdown import SignalPipe
    from duly.service.service_thread import ServiceThread
    from duly.worker.stats import Worked

# Signals within so many seconds are one: some supervisors tell the process and then its group.
TOGETHER = 0.1
# Seconds that threads without work need to end.
TIDYING = 0.5


class DrainWording(NamedTuple):
    """What is said of how it ends."""

    things: str
    first: str
    begun: str


JOBS = DrainWording("jobs", "jobs that run are finished", "the jobs that run")
MESSAGES = DrainWording(
    "messages",
    "messages on their way are waited for",
    "the messages on their way, which may have arrived",
)


class ServiceSupervisor:
    """Tells a worker or a relay what signals say, and waits for its end."""

    def __init__(
        self,
        hosted: ServiceThread[Worked] | ServiceThread[Relayed],
        line: SignalPipe,
        grace: float,
        wording: DrainWording = JOBS,
    ) -> None:
        self._service = hosted
        self._wording = wording
        self._log = logging.getLogger(f"duly.{hosted.name}")
        self._signals = line
        self._grace = grace
        self._signals_seen = 0
        self._code = 0
        self._last = 0.0
        self._due: float | None = None

    def run(self, app: Duly) -> int:
        """Until it has ended and the application is closed; returns the exit code."""
        while not self._service.wait(0):
            left = None if self._due is None else max(self._due - time.monotonic(), 0.0)
            ready, _, _ = select.select([self._signals.reader], [], [], left)
            if not ready:
                self._log.error(
                    "gave up: %s could not be given back, their leases will run out",
                    self._wording.things,
                )
                leave_at_once(self._code or FAILED)
            for number in self._signals.read_signals():
                self._handle_signal(number)
        return self._finish(app)

    def _handle_signal(self, number: int) -> None:
        now = time.monotonic()
        if self._signals_seen and now - self._last < TOGETHER:
            return
        self._last = now
        self._signals_seen += 1
        if self._signals_seen == 1:
            self._log.info("draining: %s, the others are given back", self._wording.first)
            self._service.stop()
            self._due = now + self._grace + LAST
        elif self._signals_seen == 2:
            self._log.warning("giving back %s", self._wording.begun)
            self._service.stop_now()
            self._code, self._due = 128 + number, now + LAST
        else:
            leave_at_once(128 + number)

    def _finish(self, app: Duly) -> int:
        """Close the application; or leave it as it is, where handlers hang that may hold it."""
        worked, problem = self._service.result, self._service.problem
        if problem is not None:
            self._code = self._code or FAILED
            trace = None if isinstance(problem, DulyError) else problem
            self._log.error("the %s has failed: %s", self._service.name, problem, exc_info=trace)
        elif worked is not None:
            told = summary(worked) or "there was nothing to do"
            self._log.info("ended: %s", told, extra={"members": counts(worked)})
            if worked.stuck and not self._signals_seen:
                restart_process()
        if has_hung_handlers():
            leave_at_once(self._code)
        app.close()
        return self._code


def summary(worked: Worked | Relayed) -> str:
    """What became of the jobs or messages, as far as there were any."""
    return ", ".join(f"{count} {name}" for name, count in counts(worked).items() if count)


def counts(worked: Worked | Relayed) -> dict[str, int]:
    """The same by name."""
    told = {one.name: getattr(worked, one.name) for one in fields(worked)}
    return {name: count for name, count in told.items() if type(count) is int}


def has_hung_handlers() -> bool:
    """Whether handlers run that were given up: nothing waits for them, and nothing stops them."""
    due = time.monotonic() + TIDYING
    hands = [thread for thread in threading.enumerate() if thread.name == "duly-hand"]
    for thread in hands:
        thread.join(max(due - time.monotonic(), 0.0))
    return any(thread.is_alive() for thread in hands)
