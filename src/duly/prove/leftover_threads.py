"""Work that a handler leaves behind when it is through: waited for, or else refused.

A thread or a task that is not waited for is lost if the process dies after the job was settled. To
see that, the single run must have come to its end.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from duly.prove.recording import Refusals

# Seconds; what takes longer is taken to go on for ever.
LONGEST = 10.0
PAUSE = 0.005
LIBRARIES = frozenset({"site-packages", "dist-packages"})


class LeftoverTracker:
    """Knows what was begun since a delivery began."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._known: set[object] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads: set[threading.Thread] = set()
        self._submitted: set[Future[Any]] = set()

    @contextmanager
    def track_threads(self) -> Iterator[None]:
        """Learn of threads that the application starts, and of what is given to those of a pool.

        What libraries start for themselves serves the application, and need not come to an end.
        """
        start, submit = threading.Thread.start, ThreadPoolExecutor.submit

        def start_and_track(this: threading.Thread) -> None:
            start(this)
            if not is_library(module_of(sys._getframe(1))):
                self._threads.add(this)

        def submit_and_track(
            this: ThreadPoolExecutor, *arguments: Any, **options: Any
        ) -> Future[Any]:
            future = submit(this, *arguments, **options)
            self._submitted.add(future)
            future.add_done_callback(self._submitted.discard)
            return future

        with (
            replace_attribute(threading.Thread, "start", start_and_track),
            replace_attribute(ThreadPoolExecutor, "submit", submit_and_track),
        ):
            yield

    def begin(self) -> None:
        """From here on: what runs already belongs to the application, and not to a handler."""
        self._known = {*self._threads, *self._submitted}
        asyncio.get_running_loop().set_task_factory(self._make_task)

    def _make_task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        """Make a task, and know of it if the application has: its code, or who asked for it."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        code = getattr(work, "cr_frame", None)
        asked = sys._getframe(1)
        while asked.f_back is not None and module_of(asked).partition(".")[0] == "asyncio":
            asked = asked.f_back
        if any(not is_library(module_of(one)) for one in (asked, code) if one is not None):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return task

    async def wait_until_done(self) -> None:
        """Wait until nothing is left running."""
        until = time.monotonic() + LONGEST
        while left := self._still_running():
            if time.monotonic() > until:
                self._refusals.add(leftover_refusal(left[0]))
                return
            await asyncio.sleep(PAUSE)

    def _still_running(self) -> list[object]:
        threads = [one for one in list(self._threads) if one.is_alive()]
        running: list[object] = [*self._tasks, *threads, *list(self._submitted)]
        return [one for one in running if one not in self._known]


def leftover_refusal(left: object) -> str:
    """Why a handler that leaves this behind cannot be proved."""
    what = "work in a ThreadPoolExecutor"
    if isinstance(left, threading.Thread):
        what = f"the thread {left.name}"
    elif isinstance(left, asyncio.Task):
        what = f"the task {getattr(left.get_coro(), '__qualname__', left.get_name())}"
    return (
        f"the handler has left {what} running, which did not end within {LONGEST:g} seconds: what "
        "it does is lost if the process ends meanwhile. Let the handler wait for it or enqueue a "
        "job; if it is to serve every event, start it when the application is imported"
    )


def module_of(frame: FrameType) -> str:
    """The module whose code a frame runs."""
    return str(frame.f_globals.get("__name__", ""))


def is_library(module: str) -> bool:
    """Whether a module is duly's or Python's own, or installed."""
    if module.partition(".")[0] == "duly":
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    path = Path(file)
    return not LIBRARIES.isdisjoint(path.parts) or path.is_relative_to(sysconfig.get_path("stdlib"))
