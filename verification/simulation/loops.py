"""An event loop without a clock or a selector of its own: the world says when it goes on.

asyncio's tasks, futures, timeouts and locks need no more of a loop than this. What is ready runs
in its order, as in any loop; when it runs, and how late a timer is, is the schedule's to say.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

from verification.simulation.errors import Crashed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from verification.simulation.processes import Process


class Handle:
    """One call that is to come; a timer of the loop, where it has a time."""

    __slots__ = ("arguments", "callback", "context", "gone", "process", "time")

    def __init__(
        self,
        process: Process,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context | None,
        time: int = 0,
    ) -> None:
        self.process = process
        self.callback = callback
        self.arguments = arguments
        self.context = contextvars.copy_context() if context is None else context
        self.time = time
        self.gone = False

    def cancel(self) -> None:
        """Never call it."""
        self.gone = True

    def cancelled(self) -> bool:
        """Whether it will never be called."""
        return self.gone

    def when(self) -> float:
        """The time of a timer, in seconds."""
        return self.time / 1_000_000

    def due(self) -> None:
        """Its time has come: it is ready, as soon as its process runs."""
        if not self.gone:
            self.process.ready.append(self)
            self.process.run()


class Loop:
    """The event loop of one simulated process, as much of one as asyncio and duly ask for."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        # Kept so that what a crash leaves half-way can be taken apart, and says nothing.
        self.tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        """Seconds on a clock that never jumps."""
        return self._world.now / 1_000_000

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        """Call it after what is ready now."""
        handle = Handle(self._process, callback, args, context)
        self._process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        """Call it after so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        """Call it at that time, or later."""
        handle = Handle(self._process, callback, args, context, round(when * 1_000_000))
        self._world.at(handle.time, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        loop: Any = self
        return asyncio.Future(loop=loop)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Run a coroutine; what is taken apart begins nothing new."""
        if not self._process.alive:
            coro.close()
            raise Crashed
        loop: Any = self
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """Call it on a thread of this process; the pool of threads is as large as it must be."""
        del executor
        future = self.create_future()

        def work() -> None:
            try:
                answer = func(*args)
            except Exception as problem:
                if not future.done():
                    future.set_exception(problem)
            else:
                if not future.done():
                    future.set_result(answer)

        self._process.begin_thread(work)
        return future

    def get_debug(self) -> bool:
        """Never: it would look at the real clock."""
        return False

    def is_running(self) -> bool:
        """Whether its process is alive."""
        return self._process.alive

    def is_closed(self) -> bool:
        """Whether its process is gone."""
        return not self._process.alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An unhandled error: the schedule fails by it, unless its process is gone."""
        if self._process.alive:
            self._process.unheard(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """The same."""
        self.call_exception_handler(context)

    def take_apart(self) -> None:
        """End what a crash left half-way; nothing of it can reach the database or the world."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            if not task.done():
                # Or asyncio would complain of each.
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                end(task.get_coro())


def end(coroutine: Coroutine[Any, Any, Any] | Any) -> None:
    """Close a coroutine, also one that insists on awaiting something while it is closed."""
    for _ in range(20):
        try:
            coroutine.close()
        except BaseException:  # any error of its blocks: its process is gone
            continue
        return
