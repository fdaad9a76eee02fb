"""Ctrl-C once ends the run early and still audits it; twice, or a SIGTERM, quits and cleans up."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Quit(BaseException):
    """Somebody wants this process to end now."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number
        """What a shell reports for a process that this signal ended."""


class Signals:
    """Turns signals into a wish to hurry, and into `Quit`, while it is entered."""

    def __init__(self) -> None:
        self._hurried = False
        self._before = {number: signal.getsignal(number) for number in ENDING}

    def is_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._hurried

    def __enter__(self) -> Self:
        for number in ENDING:
            signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and not self._hurried:
            self._hurried = True
            return
        for other in ENDING:  # nothing may interrupt the cleaning up
            signal.signal(other, signal.SIG_IGN)
        raise Quit(number)
