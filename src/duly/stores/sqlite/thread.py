"""One thread that runs calls for event loops, one after the other.

It does what ``run_in_executor`` does, at half the cost: a claim on SQLite takes so little time that
the way to the thread and back is much of what an async one costs.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from duly.stores.fork_lock import ForkSafeLock
from duly.stores.shielding import shield_to_end

T = TypeVar("T")
PendingCall = tuple[asyncio.Future[Any], Callable[[], Any]]


class SqliteThread:
    """A thread that starts at the first call, and again in a forked child."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._calls: SimpleQueue[PendingCall | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call on the thread; return or raise what it does.

        A caller that is cancelled meanwhile still waits for a call that is already running: only
        then is it certain what there is to undo. A call that has not begun is dropped.
        """
        try:
            return await self._submit(call)
        except asyncio.CancelledError:
            # Calls run in order, so that the cancelled one is over once this one is.
            await shield_to_end(self._submit(do_nothing))
            raise

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock():  # or the call might be queued behind the thread's end
            if self._thread is None or self._process != os.getpid():
                self._start()
            self._calls.put((answer, call))
        return answer

    def _start(self) -> None:
        self._calls, self._process = SimpleQueue(), os.getpid()
        # A daemon, so that a store which was not closed does not keep the process from ending.
        self._thread = threading.Thread(
            target=run_calls, args=(self._calls,), name="duly-sqlite", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread once its queued calls are done; the next call starts a new one."""
        with self._lock():
            thread, self._thread = self._thread, None
            if thread is None or self._process != os.getpid():
                return
            self._calls.put(None)
        thread.join()  # outside the lock, for which an event loop may be waiting


def run_calls(calls: SimpleQueue[PendingCall | None]) -> None:
    """Run queued calls until the end is queued."""
    while (one := calls.get()) is not None:
        answer, call = one
        if answer.cancelled():
            continue
        try:
            settle = (answer.set_result, call())
        except BaseException as problem:  # of any kind: the caller gets it
            settle = (answer.set_exception, problem)
        settle_in_loop(answer, *settle)
        del one, answer, call, settle  # keep nothing alive while waiting for the next call


def settle_in_loop(
    answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object
) -> None:
    """Settle the answer in its own event loop, unless its caller was cancelled."""

    def unless_cancelled() -> None:
        if not answer.done():
            settle(outcome)

    try:
        answer.get_loop().call_soon_threadsafe(unless_cancelled)
    except RuntimeError:  # the event loop was closed meanwhile
        return


def do_nothing() -> None:
    """A call that does nothing."""
