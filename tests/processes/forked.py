"""A process that runs a module, and starts in a moment: see the nursery."""

import atexit
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from tests import nursery

ROOT = Path(__file__).parents[2]


class Process(Protocol):
    """As much of `subprocess.Popen` as is needed of either kind."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """What it reads."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """What it prints."""

    def poll(self) -> int | None:
        """How it ended; None where it has not."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; how."""

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, unless it has ended."""

    def kill(self) -> None:
        """End it with no chance to tidy up."""

    def terminate(self) -> None:
        """Ask it to end."""


def started(module: str, *arguments: str, pass_fds: Sequence[int] = ()) -> Process:
    """``python -m module arguments`` with pipes, from the nursery where there can be one.

    Our ends have no buffer: a line kept there would be one that nobody is woken for.
    """
    if nursery.CLONE is not None:
        return Forked(module, arguments, pass_fds)
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=pipe, stdout=pipe, bufsize=0, pass_fds=pass_fds
    )


class Nursery:
    """The test's end of a nursery."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", nursery.__name__, str(number)],
                cwd=ROOT,
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        assert self._socket.recv(100) == nursery.READY, "the nursery did not start"
        atexit.register(self.close)

    def ordered(self, order: nursery.Order, files: Sequence[int]) -> int:
        """Have a process forked; its number."""
        socket.send_fds(self._socket, [json.dumps(order).encode()], files)
        return int(self._socket.recv(100))

    def close(self) -> None:
        """No more orders."""
        self._socket.close()
        self._process.wait()


@cache
def the_nursery() -> Nursery:
    return Nursery()


class Forked:
    """A child of ours that the nursery has forked."""

    def __init__(self, module: str, arguments: Sequence[str], pass_fds: Sequence[int]) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        order: nursery.Order = {
            "module": module,
            "arguments": arguments,
            "folder": str(ROOT),
            "environment": dict(os.environ),
            "files": [*range(nursery.STREAMS), *pass_fds],
        }
        try:
            self.pid = the_nursery().ordered(order, [theirs_in, theirs_out, 2, *pass_fds])
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.stdin: IO[bytes] = io.FileIO(ours_in, "w")
        self.stdout: IO[bytes] = io.FileIO(ours_out, "r")
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._reaped(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            self._ended_within(timeout)
        code = self._reaped(0)
        assert code is not None
        return code

    def _ended_within(self, timeout: float | None) -> None:
        file = os.pidfd_open(self.pid)
        try:
            if not select.select([file], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        finally:
            os.close(file)

    def _reaped(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)
