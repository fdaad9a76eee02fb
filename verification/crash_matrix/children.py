"""Forked children: each runs one thing and ends, by itself or by a signal."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Far longer than anything takes, on a busy machine, too.
PATIENCE = 60.0
STOPPED = 1000  # no exit code and no signal
# Asks a child where it is; and the seconds that it has to say so.
WHERE, SAYING = signal.SIGUSR2, 0.5


class Hung(Exception):
    """A child that neither ended nor stopped."""


class Child:
    """One forked process."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            lived(work)

    def wait(self) -> int:
        """Until it ends or stops: its exit code, minus a signal's number, or ``STOPPED``."""
        try:
            return self._waited()
        except BaseException:  # whoever waits is told to end, and must leave nobody behind
            self.kill()
            raise

    def _waited(self) -> int:
        deadline = time.monotonic() + PATIENCE
        pause = 0.001
        while True:
            if self._code is not None:
                return self._code
            found, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if found:
                if os.WIFSTOPPED(status):
                    return STOPPED
                self._code = os.waitstatus_to_exitcode(status)
                return self._code
            if time.monotonic() > deadline:
                os.kill(self.pid, WHERE)
                time.sleep(SAYING)
                raise Hung(f"it was still running after {PATIENCE:.0f} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def ended(self) -> bool:
        """Whether it has ended; where it stands is not asked again then."""
        if self._code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if found else None
        return self._code is not None

    def go_on(self) -> None:
        """Let a stopped one go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it, unless it has ended."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._code = -signal.SIGKILL


def lived(work: Callable[[], None]) -> None:
    """The whole life of a child; nothing of its parent's is run at its end."""
    code = 1
    signal.signal(WHERE, lambda *_: say_where())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a lane's own way to end is not its child's
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def say_where() -> None:
    """Write down what every thread and every task waits for: who hangs once must be understood."""
    faulthandler.dump_traceback(all_threads=True)
    with suppress(RuntimeError):  # there is no event loop here
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.stderr)
    sys.stderr.flush()
