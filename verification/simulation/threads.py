"""Threads of a simulated process, as greenlets: each runs until it waits, alone.

These stand in for those of `threading` and `queue` where duly starts threads. What a
thread waits for is a request to the world, an event, a queue or a time; then the world goes on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from verification.simulation.errors import Crashed
from verification.simulation.running import here

if TYPE_CHECKING:
    from collections.abc import Callable

    from verification.simulation.processes import Process


class Strand:
    """One greenlet of a process."""

    def __init__(self, process: Process, work: Callable[[], object]) -> None:
        self._process = process
        self._greenlet: Any = greenlet(lambda _: work(), parent=process.world.hub)

    def go_on(self, answer: object = None) -> None:
        """Run it until it waits again; called by the world."""
        if self._greenlet.dead:
            return
        end = self._process.in_strand(self)
        try:
            self._greenlet.switch(answer)
        finally:
            end()

    def end(self) -> None:
        """Take apart what a crash left half-way."""
        for _ in range(20):
            if self._greenlet.dead or not self._greenlet:
                return
            try:
                self._greenlet.throw(Crashed())
            except BaseException:  # any error of its blocks: its process is gone
                continue

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self._greenlet.dead)


def wait() -> Any:
    """Let the world go on until ``go_on`` of the running strand is called."""
    current = getcurrent()
    if current.parent is None:
        raise RuntimeError("an event loop of the simulation was to block: use a thread")
    return current.parent.switch()


class Thread:
    """`threading.Thread`, as far as duly uses it."""

    def __init__(
        self,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = False,  # as in the standard library
    ) -> None:
        self._target = target
        self._arguments = args
        self.name = name
        self.daemon = daemon
        self._strand: Strand | None = None

    def start(self) -> None:
        """Run it soon."""
        self._strand = here().begin_thread(lambda: self._target(*self._arguments))

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self._strand is not None and not self._strand.over

    def join(self, timeout: float | None = None) -> None:
        """Wait until it ends, looking now and then: only the end of a process does so."""
        del timeout
        while self.is_alive():
            pause(0.05)


def pause(seconds: float) -> None:
    """Let time pass for the running thread."""
    Event().wait(seconds)


class Event:
    """`threading.Event`, of one process."""

    def __init__(self) -> None:
        self._set = False
        self._process = here()
        self._waiting: deque[Strand] = deque()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Wake all that wait."""
        self._set = True
        while self._waiting:
            self._process.soon(self._waiting.popleft().go_on)

    def clear(self) -> None:
        """Have the next ones wait."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; whether it is set."""
        if not self._set and (timeout is None or timeout > 0):
            strand = self._process.running_strand()
            self._waiting.append(strand)
            if timeout is not None:
                self._process.later(timeout, lambda: self._late(strand))
            wait()
        return self._set

    def _late(self, strand: Strand) -> None:
        if strand in self._waiting:
            self._waiting.remove(strand)
            strand.go_on()


class SimpleQueue:
    """`queue.SimpleQueue`, of one process."""

    def __init__(self) -> None:
        self._things: deque[Any] = deque()
        self._process = here()
        self._waiting: deque[Strand] = deque()

    def put(self, thing: object) -> None:
        """Add something, and wake the first that waits."""
        self._things.append(thing)
        if self._waiting:
            self._process.soon(self._waiting.popleft().go_on)

    def get(self) -> Any:
        """Wait for something."""
        while not self._things:
            self._waiting.append(self._process.running_strand())
            wait()
        return self._things.popleft()
