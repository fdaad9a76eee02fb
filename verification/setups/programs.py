"""The processes of a set-up: started, watched, brought back as a service manager would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from verification.setups.catalog import Command

# Seconds that a process has to drain when it is told to end.
ENDING = 40.0
# What a process says that has met an error which it did not expect.
COMPLAINT = re.compile(
    r"\b(?:ERROR|CRITICAL)\b|^Traceback|Fatal Python error|never retrieved|Segmentation fault"
)


class Program:
    """One process of a set-up, and its log. Every start appends to the log."""

    def __init__(self, command: Command, folder: Path, environment: Mapping[str, str]) -> None:
        self.name, self._words = command.name, command.words
        self._folder, self._environment = folder, environment
        self.log = folder / f"{command.name}.log"
        self.deaths: list[str] = []
        self._lock = threading.Lock()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._words, cwd=self._folder, env=dict(self._environment),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def look(self) -> None:
        """Note a death, and start the process again."""
        with self._lock:
            code = self._process.poll()
            if code is None:
                return
            self.deaths.append(f"{self.name} {how_ended(code)}")
            self._process = self._start()

    def kill(self) -> None:
        """End it with no chance to tidy up, and start it again."""
        with self._lock:
            self._process.kill()
            self._process.wait()
            self._process = self._start()

    def pause(self) -> None:
        """Freeze it where it stands."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Tell it to drain; a process that does not end, or ends badly, is noted."""
        with self._lock:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                code = self._process.wait(ENDING)
            except subprocess.TimeoutExpired:
                self.deaths.append(f"{self.name} did not end within {ENDING:.0f} s of SIGTERM")
                return
            # uvicorn and waitress end by the signal itself once they have drained.
            if code not in (0, -signal.SIGTERM):
                self.deaths.append(f"{self.name} {how_ended(code)} when it was told to end")

    def remove(self) -> None:
        """Make sure that it is gone, with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def complaints(self) -> list[str]:
        """The lines of its log that tell of an unexpected error."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [f"{self.name}: {line}" for line in lines if COMPLAINT.search(line)]


def how_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


@contextmanager
def running(
    commands: list[Command], folder: Path, environment: Mapping[str, str]
) -> Iterator[list[Program]]:
    """Run the processes until the block ends, however it ends."""
    programs: list[Program] = []
    try:
        for command in commands:
            programs.append(Program(command, folder, environment))
        yield programs
    finally:
        for program in programs:
            program.remove()
