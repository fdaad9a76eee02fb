"""How a process ends: signals, the drain of a worker or relay, leaving, and starting again.

Nothing of a web server is needed here: `duly worker` and `duly relay` end in the same ways.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from duly.core.errors import DulyError
from duly.server.listener import pass_listener
from duly.service.threads import THREAD_NAME

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from duly.app.duly import Duly
    from duly.relay.stats import Relayed
    from duly.service.service_thread import ServiceThread
    from duly.worker.stats import Worked

logger = logging.getLogger("duly")
ENDINGS: Final = (signal.SIGTERM, signal.SIGINT)
# How a process that started others tells them to give back what they have, and end.
AT_ONCE: Final = signal.SIGUSR1
# Seconds to write what was given back, before the process ends.
LAST: Final = 6.0
FAILED: Final = 1
# The exit code of one of several processes that asks to be replaced.
REPLACE: Final = 75
# Signals within so many seconds are one: some supervisors tell the process and then its group.
TOGETHER: Final = 0.1
# Seconds that idle threads need to end.
TIDYING: Final = 0.5


# Signals


class SignalPipe(NamedTuple):
    """A pipe with one byte for each signal that arrived."""

    reader: int
    writer: int

    def read_signals(self) -> bytes:
        """Return the signals to end since the last call; empty where something else woke it."""
        return bytes(number for number in os.read(self.reader, 100) if number in ENDINGS)

    def wake(self) -> None:
        """Wake the thread that waits for the pipe."""
        with suppress(OSError):  # a full pipe wakes it too
            os.write(self.writer, b"\0")


@contextmanager
def catch_signals() -> Iterator[SignalPipe]:
    """Write the signals that end a process to a pipe.

    Python itself writes the bytes, at the moment of the signal. A handler would run only when the
    main thread has something to do, and it may have fallen asleep just before.
    """
    pipe = SignalPipe(*os.pipe())
    os.set_blocking(pipe.writer, False)
    wakeup_before = signal.set_wakeup_fd(pipe.writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, ignore_signal) for number in ENDINGS}
    try:
        yield pipe
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(pipe.reader)
        os.close(pipe.writer)


def ignore_signal(number: int, frame: object) -> None:
    """Do nothing: the signal is in the pipe already."""


# Leaving


def leave_at_once(code: int) -> NoReturn:
    """End without waiting for a handler's thread, which nothing can stop."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def restart_process(listener: socket.socket | None = None) -> NoReturn:
    """Become a fresh process with the same command line, and the same socket if there is one.

    Threads that hang end with this; requests that arrive meanwhile wait on the socket.
    """
    logger.critical("restarting: handlers hang, and nothing else can end them")
    logging.shutdown()
    sys.stdout.flush()
    if listener is not None:
        pass_listener(listener)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def has_hung_handlers() -> bool:
    """Return True while handlers run that were given up: nothing waits for them or stops them."""
    deadline = time.monotonic() + TIDYING
    threads = [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    return any(thread.is_alive() for thread in threads)


# A worker or a relay without a server


class DrainWording(NamedTuple):
    """What the log says of a drain."""

    things: str
    first: str
    begun: str


JOBS = DrainWording("jobs", "jobs that run are finished", "the jobs that run")
MESSAGES = DrainWording(
    "messages",
    "messages on their way are waited for",
    "the messages on their way, which may have arrived",
)


def run_service(
    app: Duly,
    make: Callable[[Callable[[], None]], ServiceThread[Worked] | ServiceThread[Relayed]],
    grace: float,
    wording: DrainWording = JOBS,
) -> int:
    """Run a worker or a relay until it ends or a signal ends it; return the exit code.

    Args:
        app: whose worker or relay it is.
        make: makes it, from the function to call when it has ended.
        grace: seconds that a drain may take.
        wording: of the log.
    """
    with catch_signals() as signals:
        service = make(signals.wake)
        service.start()
        return ServiceSupervisor(service, signals, grace, wording).run(app)


class ServiceSupervisor:
    """Passes signals to a worker or a relay, and waits for its end.

    It has the main thread to itself, so that a handler which blocks the service's thread cannot
    hold up a signal.
    """

    def __init__(
        self,
        service: ServiceThread[Worked] | ServiceThread[Relayed],
        signals: SignalPipe,
        grace: float,
        wording: DrainWording,
    ) -> None:
        self._service = service
        self._wording = wording
        self._log = logging.getLogger(f"duly.{service.name}")
        self._signals = signals
        self._grace = grace
        self._signals_seen = 0
        self._code = 0
        self._last_signal = 0.0
        self._deadline: float | None = None

    def run(self, app: Duly) -> int:
        """Wait until the service has ended, close the application, and return the exit code."""
        while not self._service.wait(0):
            left = None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)
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
        if self._signals_seen and now - self._last_signal < TOGETHER:
            return
        self._last_signal = now
        self._signals_seen += 1
        if self._signals_seen == 1:
            self._log.info("draining: %s, the others are given back", self._wording.first)
            self._service.stop()
            self._deadline = now + self._grace + LAST
        elif self._signals_seen == 2:
            self._log.warning("giving back %s", self._wording.begun)
            self._service.stop_now()
            self._code, self._deadline = 128 + number, now + LAST
        else:
            leave_at_once(128 + number)

    def _finish(self, app: Duly) -> int:
        """Close the application; leave it open where hung handlers may hold it."""
        result, problem = self._service.result, self._service.problem
        if problem is not None:
            self._code = self._code or FAILED
            trace = None if isinstance(problem, DulyError) else problem
            self._log.error("the %s has failed: %s", self._service.name, problem, exc_info=trace)
        elif result is not None:
            text = summary(result) or "there was nothing to do"
            self._log.info("ended: %s", text, extra={"members": counts_of(result)})
            if result.stuck and not self._signals_seen:
                restart_process()
        if has_hung_handlers():
            leave_at_once(self._code)
        app.close()
        return self._code


def summary(result: Worked | Relayed) -> str:
    """Return the counts that are not zero, for people."""
    return ", ".join(f"{count} {name}" for name, count in counts_of(result).items() if count)


def counts_of(result: Worked | Relayed) -> dict[str, int]:
    """Return the counts of a worker or relay by name."""
    values = {one.name: getattr(result, one.name) for one in fields(result)}
    return {name: value for name, value in values.items() if type(value) is int}
