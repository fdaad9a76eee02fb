"""The test's end of a worker: one request, one reply, and signals at any moment between."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from tests.support.processes.forked import ROOT, Forked

__all__ = ["PATIENCE", "ROOT", "Led", "Worker", "given", "until"]

# Far longer than anything takes here: who waits this long waits in vain.
PATIENCE = 60.0
T = TypeVar("T")


class Led:
    """A process that runs a module of the tests. The opener ends it."""

    def __init__(self, module: str, *arguments: str, pass_fds: Sequence[int] = ()) -> None:
        self._process: subprocess.Popen[bytes] = Forked(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # a line kept in a buffer of ours would be one that nobody is woken for
            pass_fds=pass_fds,
        )

    def ask(self, request: str, **values: object) -> Any:
        """Send a request and wait for its reply."""
        self.send(request, **values)
        return self.reply()

    def send(self, request: str, **values: object) -> None:
        """Send a request; a stopped process will find it when it goes on."""
        pipe = given(self._process.stdin)
        pipe.write(json.dumps([request, values]).encode() + b"\n")

    def reply(self) -> Any:
        """The next line; None where the process ended instead of answering."""
        line = self.replies.readline()
        return json.loads(line) if line else None

    @property
    def replies(self) -> IO[bytes]:
        """What the process prints, to be waited on together with others."""
        return given(self._process.stdout)

    def pause(self) -> None:
        """Freeze it where it stands."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it with no chance to tidy up; returns when it is gone."""
        self._process.kill()
        self.ended()

    def ended(self) -> int:
        """Wait until it is gone; how it went."""
        code = self._process.wait(PATIENCE)
        given(self._process.stdin).close()
        given(self._process.stdout).close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Worker(Led):
    """A process that runs `tests.support.processes.working`."""

    def __init__(self, url: str) -> None:
        super().__init__("tests.support.processes.working", url)


def given(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def until(look: Callable[[], T | None]) -> T:
    """What ``look`` returns as soon as it is not None; fails when patience is at its end."""
    deadline, pause = time.monotonic() + PATIENCE, 0.005
    while (seen := look()) is None:
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)  # who looks all the time takes it from who is looked at
    return seen
