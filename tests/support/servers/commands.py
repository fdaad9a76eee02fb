"""Runs a command in the foreground and passes on the signals that ask it to end."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

FORWARDED = (signal.SIGINT, signal.SIGTERM)


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run the command to its own end, however that was asked for; return its exit code.

    A command ended by a signal counts as the shell counts it: 128 and the signal's number.
    """
    started: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if not started:
            raise KeyboardInterrupt
        # Ctrl-C at a terminal reaches the whole group: the command has it already, and a second
        # one would cut its own cleaning up short.
        if number == signal.SIGTERM or not sys.stdin.isatty():
            started[0].send_signal(number)

    # Before the start, not after: a shell's background job ignores SIGINT, and the command would
    # inherit that; a signal that is handled here is back to its default there.
    before = [signal.signal(number, forward) for number in FORWARDED]
    try:
        with subprocess.Popen(command, env=environment) as child:
            started.append(child)
            code = child.wait()
    finally:
        for number, handler in zip(FORWARDED, before, strict=True):
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
