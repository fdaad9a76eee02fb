"""Threads for handlers that block: as many as are needed, each taking one job after the other.

What is through is handed to the event loop in heaps: a call into the loop for each would cost more
than a small job.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from duly.core.onestep import finish
from duly.jobs.outcome import judged
from duly.worker.run_job import perform

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from duly.jobs.outcome import Ended
    from duly.worker.execution import Run
    from duly.worker.run_job import Place


class Hands:
    """Runs handlers on threads, and tells the event loop how they ended."""

    def __init__(self, place: Place, done: Callable[[Run, Ended], None]) -> None:
        self._place = place
        self._done = done
        self._asked: SimpleQueue[Run | None] = SimpleQueue()
        self._through: deque[tuple[Run, Ended]] = deque()
        self._told = False
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report to this event loop."""
        self._loop = loop

    def give(self, run: Run) -> None:
        """Have a job done."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, name="duly-hand", daemon=True).start()
        self._asked.put(run)

    def _work(self) -> None:
        while (run := self._asked.get()) is not None:
            ended = self._performed(run)
            self._through.append((run, ended))
            # Free before the loop hears of it: what it sends next must not start another thread.
            with self._lock:
                self._idle += 1
                tell, self._told = not self._told, True
            if tell and self._loop is not None:
                self._tell(self._loop)
            del run, ended

    def _performed(self, run: Run) -> Ended:
        try:
            return finish(perform(run, self._place))
        except BaseException as problem:  # a thread that dies would take its slot with it
            return judged(run.leased, run.handler, problem, self._place.circumstances(run))

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._collect)
        except RuntimeError:  # the event loop was closed: nobody waits for it any more
            return

    def _collect(self) -> None:
        """On the event loop: everything that is through."""
        with self._lock:
            self._told = False
        while self._through:
            self._done(*self._through.popleft())

    def close(self) -> None:
        """End the threads that have nothing to do; those that are stuck end with the process."""
        with self._lock:
            count = self._threads
        for _ in range(count):
            self._asked.put(None)
