"""Runs one command in one copy, and judges what it said."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from verification.mutation.findings import broke, found_by

if TYPE_CHECKING:
    from verification.mutation.copies import Copy
    from verification.mutation.shelf import Mutant

# Seconds; each takes a few alone, and a busy machine twenty times as long.
PATIENCE = 600.0
# Seconds for what a command has started to go with it.
GOING = 15.0
# So many of the last lines are shown where a command said something else than it should.
SHOWN = 25
Judged = Literal["caught", "missed", "wrong reason", "hung", "stale", "green", "red"]


class Stopped(Exception):
    """Whoever wanted to know does not any more."""


class Run(NamedTuple):
    """How a command ended; no exit status where it did not."""

    status: int | None
    said: str
    seconds: float

    def tail(self) -> str:
        """The end of what it said."""
        return "\n".join(self.said.splitlines()[-SHOWN:])


class Verdict(NamedTuple):
    """What came of one planted bug, or of one command without any."""

    name: str
    judged: Judged
    command: str
    seconds: float = 0.0
    told: str = ""

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self.judged in ("caught", "green")


class Runs:
    """Commands that are running, in threads, and can all be ended at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, copy: Copy, command: str) -> Run:
        """Run a command in a copy, with all that it starts, and end it where it does not end."""
        begun = time.monotonic()
        process = self._begun(copy, command)
        try:
            said, _ = process.communicate(timeout=PATIENCE)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            said, status = ended(process), None
        finally:
            self._running.discard(process)
        if self._stopped:
            raise Stopped
        return Run(status, said, time.monotonic() - begun)

    def _begun(self, copy: Copy, command: str) -> subprocess.Popen[str]:
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        with self._lock:
            if self._stopped:
                raise Stopped
            process = subprocess.Popen(
                words, cwd=copy.folder, env=copy.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
            return process

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                signalled(process, signal.SIGTERM)


def ended(process: subprocess.Popen[str]) -> str:
    """End a command and what it started: politely, then not; returns what it had said."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signalled(process, number)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=GOING)[0]
    return ""  # somebody keeps its output open


def signalled(process: subprocess.Popen[str], number: int) -> None:
    """Tell a command, and what it started, to end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def judged(found: Run, mutant: Mutant) -> Judged:
    """Whether a command that should have found a bug has, and that very bug."""
    if found.status is None:
        return "hung"
    if found.status == 0:
        return "missed"
    told = mutant.phrase in found_by(mutant.command, found.said)
    return "caught" if told and not broke(found.said) else "wrong reason"
