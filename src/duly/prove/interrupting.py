"""Ctrl-C, SIGTERM and SIGHUP: they end a proof, but never what puts the databases back."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds: whoever presses Ctrl-C again and again must not break off what the first one began.
AGAIN = 2.0
WAIT = b"\nduly: the databases are being put back; this cannot be broken off\n"


class Interruptions:
    """Hears the signals that ask a process to end; a `KeyboardInterrupt` comes only when heard.

    One that comes at another time is kept until the end. What ignores a signal goes on doing so,
    and in a thread of its own a proof hears none: Python tells the main thread.
    """

    def __init__(self) -> None:
        self._kept: dict[signal.Signals, Any] = {}
        self._heard = False
        self._told = False
        self._explained = False
        self._raised = float("-inf")

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            for one in ENDING:
                if signal.getsignal(one) not in (None, signal.SIG_IGN):
                    self._kept[one] = signal.signal(one, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        for one, handler in self._kept.items():
            signal.signal(one, handler)
        if self._told and kind is None:
            raise KeyboardInterrupt

    def _hear(self, *_: object) -> None:
        now = time.monotonic()
        if self._heard and now - self._raised > AGAIN:
            self._told, self._raised = True, now
            raise KeyboardInterrupt
        if self._told and not self._heard and not self._explained:
            self._explained = True  # once: nobody may be reading
            os.write(2, WAIT)
        self._told = True

    @contextmanager
    def heard(self) -> Iterator[None]:
        """A part of a proof that may be broken off at any moment."""
        self._heard = True
        try:
            if self._told:
                raise KeyboardInterrupt
            yield
        finally:
            self.hold()

    def hold(self) -> None:
        """From here on nothing is broken off."""
        self._heard = False


def forgotten() -> None:
    """Let the signals do what they do without a proof, in a process of the application's."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in ENDING[1:]:
        signal.signal(one, signal.SIG_DFL)
