"""Turns and the receiver as processes: started, listened to, and always ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from benchmarks.working.environments import ROOT
from benchmarks.working.processes import PATIENCE, Lines, TurnFailed, end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.relaying.contenders import Contender
    from benchmarks.relaying.turns import Order, Turn

# The slowest contender sends some hundred messages a second.
SLOWEST = 40


@dataclass(frozen=True, slots=True)
class Playing:
    """A contender on a database, with so many messages and one receiver."""

    contender: Contender
    messages: int
    port: int
    url: str = ""

    def at(self, url: str) -> Playing:
        """The same on another database."""
        return replace(self, url=url)

    @property
    def patience(self) -> float:
        """How long a turn may take at most, in seconds."""
        return PATIENCE + self.messages / SLOWEST

    def take(self, turn: Turn) -> Any:
        """Take one turn to its end; what it printed last, if anything."""
        with self.running(turn) as running:
            return running.result(self.patience)

    @contextmanager
    def running(self, turn: Turn) -> Iterator[Running]:
        """A turn that goes on until it ends, or is ended."""
        order: Order = {
            "player": self.contender.player,
            "turn": turn,
            "url": self.url,
            "port": self.port,
            "messages": self.messages,
            "parent": os.getpid(),
        }
        what = f"{self.contender.name} failed to {turn}"
        with started(what, "benchmarks.relaying.turns", json.dumps(order)) as running:
            yield running


class Running:
    """A process, what it prints, and what it said where it failed."""

    def __init__(self, what: str, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._what = what
        self._process = process
        self._errors = errors
        self._lines: Lines | None = None

    def lines(self) -> Lines:
        """Talk to it line by line."""
        if self._lines is None:
            self._lines = Lines(self._process, self.blame)
        return self._lines

    def end(self) -> None:
        """End it, and close what leads to it."""
        end(self._process)
        if self._lines is not None:
            self._lines.close()
        with suppress(BrokenPipeError):  # what it never read
            for pipe in (self._process.stdout, self._process.stdin):
                if pipe is not None:
                    pipe.close()

    def check(self) -> None:
        """Refuse one that ended badly."""
        if self._process.poll() not in (None, 0):
            raise TurnFailed(self.blame())

    def result(self, patience: float) -> Any:
        """Wait for its end; what it printed last, if anything."""
        try:
            printed, _ = self._process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            raise TurnFailed(self.blame()) from None
        self.check()
        return json.loads(printed.splitlines()[-1]) if printed else None

    def blame(self) -> str:
        """What it was to do, and its last lines."""
        self._errors.seek(0)
        return f"{self._what}:\n{''.join(self._errors.readlines()[-12:])}"


@contextmanager
def started(what: str, module: str, *arguments: str) -> Iterator[Running]:
    """A process of ours, ended at the end."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # What the caller's shell says about databases must not steer a contender.
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
        )
        running = Running(what, process, errors)
        try:
            yield running
        finally:
            running.end()


class Receiver:
    """The one receiver of the run."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.port = int(self._said()["port"])

    def _said(self) -> dict[str, float]:
        found: dict[str, float] = json.loads(self._lines.next())
        return found

    def expect(self, messages: int) -> None:
        """Count from the beginning, up to so many; what comes after this is counted."""
        self._lines.tell(str(messages))
        self.seen()  # it hears one line after the other

    def arrived(self, sender: Running, patience: float) -> dict[str, float]:
        """Wait until as many have arrived; when the first and the last of them did."""
        deadline = time.monotonic() + patience
        while not self._lines.any_within(0.2):
            sender.check()
            if time.monotonic() > deadline:
                raise TurnFailed(f"{sender.blame()}\n{self.seen()} in {patience:.0f} s")
        return self._said()

    def seen(self) -> dict[str, float]:
        """How many requests came, and how many different messages they were."""
        self._lines.tell("seen")
        return self._said()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Start the receiver; it listens by the time that this is given back."""
    with started("the receiver failed", "benchmarks.relaying.receiver") as running:
        yield Receiver(running.lines())
