"""One thread that does what event loops ask of it, one call after the other.

It is what ``run_in_executor`` does, at half the price: a claim on SQLite takes so little time that
the way to the thread and back is much of what an awaited one costs.
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
    """Starts at the first call, and again in a forked child: threads survive no fork."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._calls: SimpleQueue[PendingCall | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process = 0

    async def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises.

        A caller that is cancelled meanwhile still waits for a call that is already running: only
        then is it certain what there is to undo. One that has not begun yet never will.
        """
        try:
            return await self._submit(call)
        except asyncio.CancelledError:
            # Calls are done in order, so that one is over once this one is.
            await shield_to_end(self._submit(do_nothing))
            raise

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock():  # or the question might land behind the thread's end
            if self._thread is None or self._process != os.getpid():
                self._start()
            self._calls.put((answer, call))
        return answer

    def _start(self) -> None:
        self._calls, self._process = SimpleQueue(), os.getpid()
        # A daemon, so that a store which nobody closed does not keep the process from ending.
        self._thread = threading.Thread(
            target=run_calls, args=(self._calls,), name="duly-sqlite", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread once what it was asked is done; the next call starts a new one."""
        with self._lock():
            thread, self._thread = self._thread, None
            if thread is None or self._process != os.getpid():
                return
            self._calls.put(None)
        thread.join()  # outside the lock, for which an event loop may be waiting


def run_calls(calls: SimpleQueue[PendingCall | None]) -> None:
    """What the thread does until it is told to end."""
    while (one := calls.get()) is not None:
        answer, call = one
        if answer.cancelled():
            continue
        try:
            settle = (answer.set_result, call())
        except BaseException as problem:  # whatever it is, the caller is told
            settle = (answer.set_exception, problem)
        settle_in_loop(answer, *settle)
        del one, answer, call, settle  # keep nothing alive while waiting for the next call


def settle_in_loop(
    answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object
) -> None:
    """Settle the answer in its own event loop, unless nobody is listening any more."""

    def unless_cancelled() -> None:
        if not answer.done():
            settle(outcome)

    try:
        answer.get_loop().call_soon_threadsafe(unless_cancelled)
    except RuntimeError:  # the event loop was closed meanwhile
        return


def do_nothing() -> None:
    """A call that does nothing."""
