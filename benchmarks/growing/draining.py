"""Workers as processes of their own, which drain the jobs of a database and are timed at it.

They begin together, once each has imported the application and opened its database. Time is from
the first job that begins until the table of jobs is empty; processor time is a worker's own from
its first job on.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.ingesting.ours import application
from benchmarks.processor import spent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duly

SPAWN = multiprocessing.get_context("spawn")
LEFT = b"SELECT EXISTS (SELECT FROM duly_jobs)"
# Seconds: for a start and for all the work; between two looks.
PATIENCE, GLANCE = 120.0, 0.004


class DrainFailed(RuntimeError):
    """Jobs were left, or done more than once."""


class Shared:
    """What the workers tell: each its jobs that began, and its processor time before and after."""

    def __init__(self, processes: int) -> None:
        self.begun: Any = SPAWN.Array("q", processes, lock=False)
        self.before: Any = SPAWN.Array("d", processes, lock=False)
        self.after: Any = SPAWN.Array("d", processes, lock=False)
        self.together = SPAWN.Barrier(processes + 1)
        self.over = SPAWN.Event()


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain took, in seconds: altogether, and of processor time."""

    jobs: int
    seconds: float
    workers: float
    postgres: float | None


def drained(
    url: str, *, jobs: int, processes: int, handlers: int, postmaster: int | None
) -> Drained:
    """Drain the database with so many workers."""
    shared = Shared(processes)
    servers = [] if postmaster is None else [postmaster]
    with working(url, shared, processes, handlers), psycopg.connect(url, autocommit=True) as asked:
        shared.together.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        wait_until(lambda: any(shared.begun), deadline)
        began, before = time.monotonic(), spent(servers)
        wait_until(lambda: sum(shared.begun) >= jobs, deadline)
        wait_until(lambda: asked.execute(LEFT).fetchone() == (False,), deadline)
        seconds, after = time.monotonic() - began, spent(servers)
        shared.over.set()
        wait_until(lambda: all(shared.after), deadline)
    if sum(shared.begun) != jobs:
        raise DrainFailed(f"{sum(shared.begun)} jobs began, and there were {jobs}")
    return Drained(
        jobs,
        seconds,
        sum(
            after - before
            for before, after in zip(shared.before, shared.after, strict=True)
            if before  # one that had a job at all
        ),
        after[0] - before[0] if servers else None,
    )


@contextmanager
def working(url: str, shared: Shared, processes: int, handlers: int) -> Iterator[None]:
    """The workers' processes, which are ended in any case."""
    started = [
        SPAWN.Process(target=work, args=(url, handlers, place, shared), daemon=True)
        for place in range(processes)
    ]
    try:
        for process in started:
            process.start()
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


def work(url: str, handlers: int, place: int, shared: Shared) -> None:
    """Be a worker, with what `duly worker` has unless told otherwise."""
    counting = threading.Lock()

    def begin(event: duly.Event) -> None:
        with counting:
            if not shared.begun[place]:
                shared.before[place] = time.process_time()
            # A job whose event has lost its body is missing in the end.
            shared.begun[place] += 1 if event.body else 0

    app = application(url, handlers, begin)
    app.store.open()
    threading.Thread(target=report, args=(place, shared), daemon=True).start()
    shared.together.wait(PATIENCE)
    app.work(until="stopped")


def report(place: int, shared: Shared) -> None:
    """Tell the processor time at the end, and leave at once."""
    shared.over.wait()
    shared.after[place] = time.process_time()
    os._exit(0)


def wait_until(there: Any, deadline: float) -> None:
    """Look again and again, but not for ever."""
    while not there():
        if time.monotonic() > deadline:
            raise DrainFailed(f"the jobs were not done in {PATIENCE:.0f} s")
        time.sleep(GLANCE)
