"""Inline deliveries: their handlers run inside the transaction that writes the event.

Only so many run at a time that other deliveries still find a connection. A sync handler under an
async server runs on a thread; an async handler under a sync server runs on an event loop of duly's.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from duly.core.onestep import finish
from duly.inbox.accept_one import receive_inline
from duly.receiver.commit_queue import commit_timeout_error, overloaded_error
from duly.receiver.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from duly.core.functions import Mode
    from duly.core.session import OpenedTransaction
    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.jobs.registry import Registries


class BoundedOpener(Protocol):
    """Opens transactions in the time that the caller has left: a store, or the user's ORM."""

    def open_transaction(
        self, *, wait: timedelta, within: float | None = None, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, committed at the end of the block."""


class OrmOpener(BoundedOpener, Protocol):
    """The user's ORM, whose pool may belong to one event loop."""

    @property
    def in_one_loop(self) -> bool:
        """Whether its transactions are awaited, on connections that belong to one event loop."""

    def enter_loop(self) -> None:
        """Refuse the running event loop where the ORM's pool belongs to another one."""


class OpenerWithDeadline:
    """An opener and the seconds that the sender has left."""

    def __init__(self, opener: BoundedOpener, seconds: float) -> None:
        self._opener = opener
        self._seconds = seconds

    def open_transaction(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction for one delivery."""
        return self._opener.open_transaction(wait=wait, within=self._seconds, lasting=lasting)


def release_slot(running: asyncio.Future[list[EventOutcome]], free: asyncio.Semaphore) -> None:
    """Free the slot of a handler's thread; its request may have gone."""
    free.release()
    if not running.cancelled():
        running.exception()


class InlineCommit:
    """Runs sync and async handlers in transactions of the store or of the user's ORM."""

    def __init__(
        self,
        sync_opener: BoundedOpener,
        async_opener: BoundedOpener,
        *,
        at_once: int,
        most: int,
        deadline: float,
    ) -> None:
        self._sync_opener = sync_opener
        self._async_opener = async_opener
        self._at_once = at_once
        self._most = most
        self._deadline = deadline
        self._waiting = 0
        self._free = threading.BoundedSemaphore(at_once)
        self._loops: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0
        self._loop_thread = LoopThread()

    async def receive(
        self, events: Sequence[NewEvent], mode: Mode, registries: Registries | None = None
    ) -> list[EventOutcome]:
        """Receive and handle one delivery, on the running event loop."""
        free, loop = self._free_in_loop(), asyncio.get_running_loop()
        until = loop.time() + self._deadline
        self._admit()
        try:
            async with asyncio.timeout_at(until):
                await free.acquire()
        except TimeoutError:
            raise commit_timeout_error(self._deadline) from None
        finally:
            self._waiting -= 1
        within = until - loop.time()
        if mode == "sync":
            opener = OpenerWithDeadline(self._sync_opener, within)
            running = loop.run_in_executor(
                self._handler_threads(), lambda: finish(receive_inline(opener, events, registries))
            )
            # Not when the request ends: it may be cancelled, and a thread cannot be.
            running.add_done_callback(lambda over: release_slot(over, free))
            return await asyncio.shield(running)
        try:
            opener = OpenerWithDeadline(self._async_opener, within)
            return await receive_inline(opener, events, registries)
        finally:
            free.release()

    def receive_blocking(
        self, events: Sequence[NewEvent], mode: Mode, registries: Registries | None = None
    ) -> list[EventOutcome]:
        """Receive and handle one delivery on the calling thread."""
        until = time.monotonic() + self._deadline
        if not self._free.acquire(timeout=self._deadline):
            raise commit_timeout_error(self._deadline)
        try:
            within = until - time.monotonic()
            if mode == "async":
                opener = OpenerWithDeadline(self._async_opener, within)
                return self._loop_thread.run(receive_inline(opener, events, registries))
            opener = OpenerWithDeadline(self._sync_opener, within)
            return finish(receive_inline(opener, events, registries))
        finally:
            self._free.release()

    def _admit(self) -> None:
        if self._waiting >= self._most:
            raise overloaded_error()
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
        """The threads of this process: a forked child has none of its parent's."""
        if self._threads is None or self._process != os.getpid():
            self._threads = ThreadPoolExecutor(self._at_once, "duly-handler")
            self._process = os.getpid()
        return self._threads

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the threads; ``last`` gives back the connections of duly's own event loop."""
        if self._threads is not None and self._process == os.getpid():
            self._threads.shutdown()
        self._threads = None
        self._loop_thread.close(last)
