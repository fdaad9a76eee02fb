"""The lane of deliveries whose handlers run inside their transaction: each has one of its own.

Only so many run at a time that the others still find a connection. A handler that blocks runs on
a thread where the server is awaited, one that is awaited runs on an event loop of duly's where the
server blocks.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from duly._kernel.onestep import finish
from duly.edge.bridge import LoopThread
from duly.edge.lanes import late, overloaded
from duly.inbox.inline import receive_inline

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from duly.inbox.arrivals import Outcome
    from duly.inbox.inline import Opener, Work
    from duly.jobs.handlers import Colour


class InlineLane:
    """Runs handlers in the transactions of whoever opens them, in either colour."""

    def __init__(
        self, blocking: Opener, awaited: Opener, *, at_once: int, most: int, deadline: float
    ) -> None:
        self._blocking = blocking
        self._awaited = awaited
        self._at_once = at_once
        self._most = most
        self._deadline = deadline
        self._waiting = 0
        self._free = threading.BoundedSemaphore(at_once)
        self._loops: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._loop_thread = LoopThread()

    async def receive(self, works: Sequence[Work], colour: Colour) -> list[Outcome]:
        """Receive and handle one delivery, for a server that is awaited."""
        free = self._free_in_loop()
        self._let_in()
        try:
            async with asyncio.timeout(self._deadline):
                await free.acquire()
        except TimeoutError:
            raise late(self._deadline) from None
        finally:
            self._waiting -= 1
        try:
            if colour == "async":
                return await receive_inline(self._awaited, works)
            return await asyncio.get_running_loop().run_in_executor(
                self._handler_threads(), lambda: finish(receive_inline(self._blocking, works))
            )
        finally:
            free.release()

    def receive_blocking(self, works: Sequence[Work], colour: Colour) -> list[Outcome]:
        """Receive and handle one delivery on the calling thread."""
        if not self._free.acquire(timeout=self._deadline):
            raise late(self._deadline)
        try:
            if colour == "async":
                return self._loop_thread.run(receive_inline(self._awaited, works))
            return finish(receive_inline(self._blocking, works))
        finally:
            self._free.release()

    def _let_in(self) -> None:
        if self._waiting >= self._most:
            raise overloaded()
        self._waiting += 1

    def _free_in_loop(self) -> asyncio.Semaphore:
        """What is free in the running event loop, whose connections are its own."""
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            for ended in [one for one in self._loops if one.is_closed()]:
                del self._loops[ended]
            found = self._loops[loop] = asyncio.Semaphore(self._at_once)
        return found

    def _handler_threads(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, "duly-handler")
        return self._threads

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the threads; ``last`` gives back the connections of duly's own event loop."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        self._loop_thread.close(last)
