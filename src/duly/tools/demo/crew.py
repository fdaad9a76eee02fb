"""The workers as processes: started, killed, stopped, woken, replaced, and gone at the end."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

from duly.tools.demo import child
from duly.tools.demo.line import Answer, Outcome

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess
    from types import TracebackType

    from duly.tools.demo.line import Line
    from duly.tools.demo.place import Place

# Forked rather than started anew: importing would take longer than many workers live.
FORK = multiprocessing.get_context("fork")


class WorkerFailed(Exception):
    """A worker ended although nobody killed it; the message holds what it wrote."""


class State(Enum):
    """What a worker is doing, as far as its answers tell."""

    STARTING = "starting"
    SERVING = "at work"
    LEASED = "under a lease"
    STOPPED = "stopped"


@dataclass(slots=True)
class Worker:
    """One process, in a place that its replacement will take."""

    place: int
    process: ForkProcess
    state: State = State.STARTING

    @property
    def number(self) -> int:
        """The process's id, by which it signs its answers."""
        return self.process.pid or 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended: its id may be somebody else's by now."""
        if self.process.exitcode is None:
            os.kill(self.number, number)


@dataclass(frozen=True, slots=True)
class Faults:
    """What was done to the workers."""

    kills: int
    stops: int


class Crew:
    """As many workers as were asked for while it is entered, whatever happens to them."""

    def __init__(self, place: Place, line: Line, size: int) -> None:
        self._place = place
        self._line = line
        self._size = size
        self._workers: dict[int, Worker] = {}
        self._kills = 0
        self._stops = 0

    def __enter__(self) -> Self:
        for place in range(self._size):
            self._start(place)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers.values():
            worker.signal(signal.SIGKILL)
        for worker in self._workers.values():
            worker.process.join()

    @property
    def faults(self) -> Faults:
        """What was done to the workers so far."""
        return Faults(self._kills, self._stops)

    @property
    def workers(self) -> list[Worker]:
        """The workers by their place."""
        return sorted(self._workers.values(), key=lambda worker: worker.place)

    def hear(self, answer: Answer) -> None:
        """Notice by its answer what a worker is doing."""
        worker = self._workers.get(answer.process)
        if worker is not None and worker.state is not State.STOPPED:
            leased = answer.outcome is Outcome.WORKING
            worker.state = State.LEASED if leased else State.SERVING

    def kill(self, worker: Worker) -> None:
        """Kill with SIGKILL, wherever it is in its work, and start another in its place."""
        worker.signal(signal.SIGKILL)
        worker.process.join()
        self._replace(worker)

    def stop(self, worker: Worker) -> None:
        """Stop with SIGSTOP: the process stands still and does not know it."""
        worker.signal(signal.SIGSTOP)
        worker.state = State.STOPPED
        self._stops += 1

    def wake(self, worker: Worker) -> None:
        """Let a stopped worker go on as if nothing had happened."""
        worker.signal(signal.SIGCONT)
        worker.state = State.SERVING

    def check(self) -> None:
        """Replace workers that somebody else has killed; raise if one has ended by itself."""
        for worker in self.workers:
            code = worker.process.exitcode
            if code == -signal.SIGKILL:
                self._replace(worker)
            elif code is not None:
                raise self._failed(worker)

    def ended(self) -> bool:
        """Whether every worker has ended, as it should once the line is dead."""
        running = False
        for worker in self._workers.values():
            code = worker.process.exitcode
            running |= code is None
            if code not in (None, 0):
                raise self._failed(worker)
        return not running

    def _replace(self, worker: Worker) -> None:
        del self._workers[worker.number]
        self._kills += 1
        self._start(worker.place)

    def _start(self, place: int) -> None:
        details = (os.getpid(), self._place, self._line)
        worker = Worker(place, FORK.Process(target=child.run, args=details, daemon=True))
        worker.process.start()
        self._workers[worker.number] = worker

    def _failed(self, worker: Worker) -> WorkerFailed:
        written = self._place.errors.read_text(errors="replace").strip()
        return WorkerFailed(f"a worker ended with code {worker.process.exitcode}:\n{written}")
