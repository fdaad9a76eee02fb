"""One event loop on a thread, for async handlers under a sync server."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class LoopThread:
    """Starts at the first call, and again in a forked child: threads survive no fork."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end on the loop, and return or raise what it does."""
        return asyncio.run_coroutine_threadsafe(work, self._ensure_loop()).result()

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="duly-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the loop after one last thing; the next call starts a new one."""
        with self._starting:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None or self._process != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(last(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        # What was closed tells its transports in the loop's next turns.
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
