"""Turns of contenders as processes: started, listened to, and always ended."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any, cast

from benchmarks.working.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.working.contenders import Contender
    from benchmarks.working.playing import Kind, Order, Turn

# The slowest contender drains some hundred jobs a second.
SLOWEST = 40
# Far longer than a start or an end takes here.
PATIENCE = 60.0
# Between two looks for a line.
GLANCE = 0.002


class TurnFailed(RuntimeError):
    """A process ended badly or said nothing for too long; the message ends with its last lines."""


@dataclass(frozen=True, slots=True)
class Playing:
    """A contender under its Python, on a database, with so much to do."""

    contender: Contender
    python: str
    counts: dict[str, int]
    url: str = ""

    def at(self, url: str) -> Playing:
        """The same on another database."""
        return replace(self, url=url)

    def take(self, turn: Turn, kind: Kind = "noop") -> Any:
        """Take one turn to its end; what it printed last, if anything."""
        patience = PATIENCE + self.counts["jobs"] / SLOWEST
        with tempfile.TemporaryFile("w+") as errors:
            process = self._start(turn, kind, patience, errors)
            try:
                printed, _ = process.communicate(timeout=patience + PATIENCE)
            except subprocess.TimeoutExpired:
                end(process)
                raise TurnFailed(self._blame(turn, errors)) from None
            if process.returncode != 0:
                raise TurnFailed(self._blame(turn, errors))
        return json.loads(printed.splitlines()[-1]) if printed else None

    @contextmanager
    def running(self, turn: Turn) -> Iterator[Lines]:
        """A turn that goes on until it is ended."""
        with tempfile.TemporaryFile("w+") as errors:
            process = self._start(turn, "noop", PATIENCE, errors)
            try:
                yield Lines(process, lambda: self._blame(turn, errors))
            finally:
                end(process)

    def _start(
        self, turn: Turn, kind: Kind, patience: float, errors: IO[str]
    ) -> subprocess.Popen[str]:
        order: Order = {
            "player": self.contender.player,
            "settings": self.contender.settings,
            "turn": turn,
            "url": self.url,
            "kind": kind,
            "counts": self.counts,
            "patience": patience,
            "parent": os.getpid(),
        }
        return subprocess.Popen(
            [self.python, "-m", "benchmarks.working.playing", json.dumps(order)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # What the caller's shell says about databases must not steer a library.
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
        )

    def _blame(self, turn: Turn, errors: IO[str]) -> str:
        errors.seek(0)
        last = "".join(errors.readlines()[-12:])
        return f"{self.contender.name} failed to {turn}:\n{last}"


class Lines:
    """What a running process prints, line by line, and what it is told."""

    def __init__(self, process: subprocess.Popen[str], blame: Callable[[], str]) -> None:
        self._process = process
        self._blame = blame
        self._lines: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with cast("IO[str]", self._process.stdout) as printed:
            for line in printed:
                self._lines.put(line)
        self._lines.put("")  # it has ended

    def close(self) -> None:
        """After the end of the process: everything that it printed was read."""
        self._reading.join(PATIENCE)

    def tell(self, line: str) -> None:
        """Write a line to it."""
        stream = cast("IO[str]", self._process.stdin)
        try:
            stream.write(f"{line}\n")
            stream.flush()
        except OSError:
            raise TurnFailed(self._blame()) from None

    def any_within(self, seconds: float) -> bool:
        """Whether it has printed a line by then that was not read yet, or has ended."""
        deadline = monotonic() + seconds
        while self._lines.empty():
            if monotonic() > deadline:
                return False
            sleep(GLANCE)
        return True

    def next(self) -> str:
        """Its next line; there must be one soon."""
        try:
            line = self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            line = ""
        if not line:
            raise TurnFailed(self._blame())
        return line


def end(process: subprocess.Popen[str]) -> None:
    """At once: what it holds goes with its database."""
    process.kill()
    process.wait()
