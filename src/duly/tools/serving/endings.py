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


class Line(NamedTuple):
    """A pipe with one byte for each signal that arrived."""

    reader: int
    writer: int

    def tell(self, number: int) -> None:
        """Leave a byte for whoever reads; one that finds the pipe full is not missed."""
        with suppress(OSError):
            os.write(self.writer, bytes([number]))


@contextmanager
def noticed_signals() -> Iterator[Line]:
    """A line from which the signals that end a process can be read."""
    line = Line(*os.pipe())
    os.set_blocking(line.writer, False)
    before = {
        number: signal.signal(number, lambda number, _: line.tell(number)) for number in ENDINGS
    }
    try:
        yield line
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(line.reader)
        os.close(line.writer)


def leave_at_once(code: int) -> NoReturn:
    """End without waiting for a handler's thread, which nothing can stop."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def start_anew(listener: socket.socket | None = None) -> NoReturn:
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
