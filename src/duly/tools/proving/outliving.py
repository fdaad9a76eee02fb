"""Work that a handler leaves behind when it is through: waited for, or else refused.

A thread or a task that nobody waits for is lost if the process dies after the job was settled. To
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

from duly.tools.steps.watching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.tools.proving.recording import Refusals

# Seconds; what takes longer is taken to go on for ever.
LONGEST = 10.0
PAUSE = 0.005
POOL = "psycopg_pool"
LIBRARIES = frozenset({"site-packages", "dist-packages"})


class Outliving:
    """Knows what was begun since a delivery began."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._known: set[object] = set()
        self._threads: set[threading.Thread] = set()
        self._submitted: set[Future[Any]] = set()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Learn of threads that the application starts, and of what is given to those of a pool.

        What libraries start for themselves serves the application, and need not come to an end.
        """
        start, submit = threading.Thread.start, ThreadPoolExecutor.submit

        def started(this: threading.Thread) -> None:
            start(this)
            if not is_library(sys._getframe(1).f_globals.get("__name__", "")):
                self._threads.add(this)

        def submitted(this: ThreadPoolExecutor, *arguments: Any, **options: Any) -> Future[Any]:
            future = submit(this, *arguments, **options)
            self._submitted.add(future)
            future.add_done_callback(self._submitted.discard)
            return future

        with (
            replaced(threading.Thread, "start", started),
            replaced(ThreadPoolExecutor, "submit", submitted),
        ):
            yield

    def begin(self) -> None:
        """From here on: what runs already belongs to the application, and not to a handler."""
        self._known = {*asyncio.all_tasks(), *self._threads, *self._submitted}

    async def ended(self) -> None:
        """Wait until nothing is left running."""
        until = time.monotonic() + LONGEST
        while left := self._left():
            if time.monotonic() > until:
                self._refusals.add(refusal(left[0]))
                return
            await asyncio.sleep(PAUSE)

    def _left(self) -> list[object]:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        tasks = [one for one in others if not serves_a_pool(one)]
        threads = [one for one in list(self._threads) if one.is_alive()]
        running: list[object] = [*tasks, *threads, *list(self._submitted)]
        return [one for one in running if one not in self._known]


def serves_a_pool(task: asyncio.Task[Any]) -> bool:
    """Whether a pool of connections has begun it, which ends when the pool does."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and POOL in Path(code.co_filename).parts


def refusal(left: object) -> str:
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


def is_library(module: str) -> bool:
    """Whether a module is duly's or Python's own, or installed."""
    if module.partition(".")[0] == "duly":
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    path = Path(file)
    return not LIBRARIES.isdisjoint(path.parts) or path.is_relative_to(sysconfig.get_path("stdlib"))
