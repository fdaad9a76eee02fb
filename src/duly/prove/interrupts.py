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
# Seconds: further Ctrl-C must not break off what the first one began.
AGAIN = 2.0
WAIT = b"\nduly: the databases are being put back; this cannot be broken off\n"


class Interruptions:
    """Hears the signals that ask a process to end; a `KeyboardInterrupt` comes only when heard.

    One that comes at another time is kept until the end. What ignores a signal goes on doing so,
    and in a thread of its own a proof hears none: Python tells the main thread.
    """

    def __init__(self) -> None:
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._interruptible = False
        self._interrupted = False
        self._explained = False
        self._raised = float("-inf")

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            for one in ENDING:
                if signal.getsignal(one) not in (None, signal.SIG_IGN):
                    self._previous_handlers[one] = signal.signal(one, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        for one, handler in self._previous_handlers.items():
            signal.signal(one, handler)
        if self._interrupted and kind is None:
            raise KeyboardInterrupt

    def _on_signal(self, *_: object) -> None:
        now = time.monotonic()
        if self._interruptible and now - self._raised > AGAIN:
            self._interrupted, self._raised = True, now
            raise KeyboardInterrupt
        if self._interrupted and not self._interruptible and not self._explained:
            self._explained = True  # once: the output may be closed
            os.write(2, WAIT)
        self._interrupted = True

    @contextmanager
    def allow_interrupts(self) -> Iterator[None]:
        """A part of a proof that may be broken off at any moment."""
        self._interruptible = True
        try:
            if self._interrupted:
                raise KeyboardInterrupt
            yield
        finally:
            self.defer_interrupts()

    def defer_interrupts(self) -> None:
        """From here on signals break off nothing."""
        self._interruptible = False


def reset_signal_handlers() -> None:
    """Let the signals do what they do without a proof, in a process of the application's."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in ENDING[1:]:
        signal.signal(one, signal.SIG_DFL)
