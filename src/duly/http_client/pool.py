"""A pool of keep-alive connections, by origin; expired ones are returned for the caller to close.

httpcore's own pool looks at every connection for every request, which cost most of a relay's time
(docs/decisions/0027). The caller bounds how many are in use.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

# Seconds: shorter than any server keeps an idle connection.
KEEP_ALIVE = 1.5
# Free connections in all: each is an open file.
MOST_FREE = 100
# Seconds between two sweeps over all free connections.
SWEEP = 0.5
Connection = TypeVar("Connection")


class Pool(Generic[Connection]):
    """Free and busy connections; safe to use from any thread.

    Args:
        usable: whether a connection can carry another request.
    """

    def __init__(self, usable: Callable[[Connection], bool]) -> None:
        self._usable = usable
        self.reset()
        POOLS.add(self)

    def reset(self) -> None:
        """Empty the pool; in a forked child, too: a connection must not have two owners."""
        self._lock = threading.Lock()
        self._free: dict[Hashable, list[tuple[float, Connection]]] = {}
        self._count = 0
        self._busy: set[Connection] = set()
        self._swept = time.monotonic()
        self._closed = False

    def acquire(self, origin: Hashable) -> tuple[Connection | None, list[Connection]]:
        """The connection freed last, if it is still usable; and the expired ones, to close."""
        expired: list[Connection] = []
        with self._lock:
            free = self._free.get(origin, [])
            while free:
                since, found = free.pop()
                self._count -= 1
                if self._usable(found) and time.monotonic() - since < KEEP_ALIVE:
                    self._busy.add(found)
                    return found, expired
                expired.append(found)
            self._free.pop(origin, None)
        return None, expired

    def add_busy(self, connection: Connection) -> None:
        """Add a new connection, which is in use."""
        with self._lock:
            self._busy.add(connection)

    def release(self, origin: Hashable, connection: Connection) -> list[Connection]:
        """Free a connection; return those to close, perhaps itself."""
        with self._lock:
            self._busy.discard(connection)
            if self._closed or self._count >= MOST_FREE or not self._usable(connection):
                return [connection, *self._sweep()]
            self._free.setdefault(origin, []).append((time.monotonic(), connection))
            self._count += 1
            return self._sweep()

    def discard(self, connection: Connection) -> None:
        """Remove a failed connection, which the caller closes."""
        with self._lock:
            self._busy.discard(connection)

    def _sweep(self) -> list[Connection]:
        """Remove and return connections that have been free for too long."""
        now = time.monotonic()
        if now - self._swept < SWEEP:
            return []
        self._swept = now
        expired: list[Connection] = []
        for origin, free in list(self._free.items()):
            kept = [one for one in free if now - one[0] < KEEP_ALIVE]
            expired += [connection for since, connection in free if now - since >= KEEP_ALIVE]
            self._count -= len(free) - len(kept)
            if kept:
                self._free[origin] = kept
            else:
                del self._free[origin]
        return expired

    def close(self) -> list[Connection]:
        """Close the pool; return all connections, for the caller to close."""
        with self._lock:
            self._closed = True
            left = [*self._busy, *(one for free in self._free.values() for _, one in free)]
            self._busy.clear()
            self._free.clear()
            self._count = 0
            return left


POOLS: WeakSet[Pool[Any]] = WeakSet()


def reset_after_fork() -> None:
    """Forget the parent's connections, in a forked child."""
    for pool in list(POOLS):
        pool.reset()


os.register_at_fork(after_in_child=reset_after_fork)
