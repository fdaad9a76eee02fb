"""Connections that are free, on a heap for each origin; those that are over are given out to close.

The pool of the layer below looks at every connection for every request, which cost most of a
relay's time (docs/decisions/0027). How many are in use is for whoever makes the calls to bound.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

# Seconds; shorter than any server waits before it closes a connection under our hands.
KEEP_ALIVE = 1.5
# Free connections in all: each is an open file.
MOST_FREE = 100
# Seconds between two looks at all of them.
SWEEP = 0.5
Connection = TypeVar("Connection")


class Pool(Generic[Connection]):
    """What is free and what is in use; any thread may ask.

    Args:
        usable: whether a connection can carry another request.
    """

    def __init__(self, usable: Callable[[Connection], bool]) -> None:
        self._usable = usable
        self.reset()
        POOLS.add(self)

    def reset(self) -> None:
        """With nothing; in a forked child, too: a connection must not have two owners."""
        self._lock = threading.Lock()
        self._free: dict[Hashable, list[tuple[float, Connection]]] = {}
        self._count = 0
        self._busy: set[Connection] = set()
        self._swept = time.monotonic()
        self._closed = False

    def acquire(self, origin: Hashable) -> tuple[Connection | None, list[Connection]]:
        """The last one that became free, if it is still good; and those to close."""
        over: list[Connection] = []
        with self._lock:
            free = self._free.get(origin, [])
            while free:
                since, found = free.pop()
                self._count -= 1
                if self._usable(found) and time.monotonic() - since < KEEP_ALIVE:
                    self._busy.add(found)
                    return found, over
                over.append(found)
            self._free.pop(origin, None)
        return None, over

    def add_busy(self, connection: Connection) -> None:
        """One that was made, and is in use."""
        with self._lock:
            self._busy.add(connection)

    def release(self, origin: Hashable, connection: Connection) -> list[Connection]:
        """One whose answer was read, or given up; returns those to close, perhaps itself."""
        with self._lock:
            self._busy.discard(connection)
            if self._closed or self._count >= MOST_FREE or not self._usable(connection):
                return [connection, *self._sweep()]
            self._free.setdefault(origin, []).append((time.monotonic(), connection))
            self._count += 1
            return self._sweep()

    def discard(self, connection: Connection) -> None:
        """One that failed; who had it closes it."""
        with self._lock:
            self._busy.discard(connection)

    def _sweep(self) -> list[Connection]:
        """Those that nobody has wanted for a while."""
        now = time.monotonic()
        if now - self._swept < SWEEP:
            return []
        self._swept = now
        over: list[Connection] = []
        for origin, free in list(self._free.items()):
            kept = [one for one in free if now - one[0] < KEEP_ALIVE]
            over += [connection for since, connection in free if now - since >= KEEP_ALIVE]
            self._count -= len(free) - len(kept)
            if kept:
                self._free[origin] = kept
            else:
                del self._free[origin]
        return over

    def close(self) -> list[Connection]:
        """All of them, to close."""
        with self._lock:
            self._closed = True
            left = [*self._busy, *(one for free in self._free.values() for _, one in free)]
            self._busy.clear()
            self._free.clear()
            self._count = 0
            return left


POOLS: WeakSet[Pool[Any]] = WeakSet()


def reset_after_fork() -> None:
    """After a fork, in the child; what the parent has open is left to it."""
    for heap in list(POOLS):
        heap.reset()


os.register_at_fork(after_in_child=reset_after_fork)
