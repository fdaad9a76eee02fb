"""Threads for sync handlers: as many as are needed, each running one job after the other.

Finished runs are handed to the event loop in batches: a call into the loop for each would cost
more than a small job.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from duly.core.onestep import finish
from duly.service.threads import THREAD_NAME, THREADS
from duly.worker.run_job import execute_job, outcome_of_error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from queue import SimpleQueue

    from duly.jobs.outcome import JobOutcome
    from duly.service.threads import Threads
    from duly.worker.execution import Execution
    from duly.worker.run_job import ExecutionContext


class ThreadPool:
    """Runs handlers on threads, and reports their outcomes to the event loop."""

    def __init__(
        self,
        context: ExecutionContext,
        on_done: Callable[[Execution, JobOutcome], None],
        threads: Threads = THREADS,
    ) -> None:
        self._new_thread = threads.thread
        self._context = context
        self._on_done = on_done
        self._submitted: SimpleQueue[Execution | None] = threads.queue()
        self._finished: deque[tuple[Execution, JobOutcome]] = deque()
        self._collect_scheduled = False
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report to this event loop."""
        self._loop = loop

    def submit(self, run: Execution) -> None:
        """Run a job on a thread that is idle, or on a new one."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._threads += 1
                self._new_thread(target=self._run_submitted, name=THREAD_NAME, daemon=True).start()
        self._submitted.put(run)

    def _run_submitted(self) -> None:
        while (run := self._submitted.get()) is not None:
            ended = self._execute(run)
            self._finished.append((run, ended))
            # Idle before the loop knows: the next job it submits must not start another thread.
            with self._lock:
                self._idle += 1
                collect, self._collect_scheduled = not self._collect_scheduled, True
            if collect and self._loop is not None:
                self._schedule_collect(self._loop)
            del run, ended

    def _execute(self, run: Execution) -> JobOutcome:
        try:
            return finish(execute_job(run, self._context))
        except BaseException as problem:  # a thread that dies would take its slot with it
            return outcome_of_error(run, problem, self._context)

    def _schedule_collect(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._collect)
        except RuntimeError:  # the event loop was closed, and the worker with it
            return

    def _collect(self) -> None:
        """On the event loop: report every finished run."""
        with self._lock:
            self._collect_scheduled = False
        while self._finished:
            self._on_done(*self._finished.popleft())

    def close(self) -> None:
        """End the threads that have nothing to do; those that are stuck end with the process."""
        with self._lock:
            count = self._threads
        for _ in range(count):
            self._submitted.put(None)
