"""How a process of duly's ends: when it is told to, at once, or to start anew.

Nothing of a web server is needed here: a worker without one ends in the same ways.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

logger = logging.getLogger("duly")
ENDINGS: Final = (signal.SIGTERM, signal.SIGINT)
# How a process that started others tells them to give back what they have, and end.
AT_ONCE: Final = signal.SIGUSR1
# Seconds for what was given up to be written, before the process ends whatever is left.
LAST: Final = 6.0
FAILED: Final = 1
# The exit code of one of several processes that wants to be replaced.
REPLACE: Final = 75
# Where a process finds the socket that the one before it listened on, as systemd passes them.
PASSED: Final = 3
PASSED_TO, PASSED_COUNT = "LISTEN_PID", "LISTEN_FDS"


class SignalPipe(NamedTuple):
    """A pipe with one byte for each signal that arrived."""

    reader: int
    writer: int

    def read_signals(self) -> bytes:
        """The signals to end that came since the last time; empty where it was something else."""
        return bytes(number for number in os.read(self.reader, 100) if number in ENDINGS)

    def wake(self) -> None:
        """Wake up whoever waits for the line."""
        with suppress(OSError):  # the pipe is full, so that nobody sleeps
            os.write(self.writer, b"\0")


@contextmanager
def catch_signals() -> Iterator[SignalPipe]:
    """A line from which the signals that end a process can be read.

    The bytes are written by Python itself at the moment of the signal. A handler would run only
    when the main thread has something to do, and it may have fallen asleep just before.
    """
    line = SignalPipe(*os.pipe())
    os.set_blocking(line.writer, False)
    woken = signal.set_wakeup_fd(line.writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, ignore_signal) for number in ENDINGS}
    try:
        yield line
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(line.reader)
        os.close(line.writer)


def ignore_signal(number: int, frame: object) -> None:
    """Nothing: it is on the line already."""


def leave_at_once(code: int) -> NoReturn:
    """End without waiting for a handler's thread, which nothing can stop."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def restart_process(listener: socket.socket | None = None) -> NoReturn:
    """Become a fresh process with the same command line, and the same socket if there is one.

    Threads that hang end with this; requests that arrive meanwhile wait on the socket.
    """
    logger.critical("starting anew: handlers that hang cannot be ended in any other way")
    logging.shutdown()
    sys.stdout.flush()
    if listener is not None:
        os.dup2(listener.fileno(), PASSED)
        os.set_inheritable(PASSED, True)  # also where it was that one already
        os.environ[PASSED_TO], os.environ[PASSED_COUNT] = str(os.getpid()), "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606
