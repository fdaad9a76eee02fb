"""A lock that a forked child does not inherit locked."""

from __future__ import annotations

import os
import threading


class ForkSafeLock:
    """A lock for each process: another thread of the parent may hold its lock during the fork."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.Lock] = {}

    def __call__(self) -> threading.Lock:
        """The lock of this process."""
        return self._locks.setdefault(os.getpid(), threading.Lock())
