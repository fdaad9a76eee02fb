"""What is swapped in duly's modules while a schedule plays: clocks, dice, threads and pauses.

Nothing that decides anything is replaced. A module that asks `time.monotonic`, `random.random` or
`secrets.token_bytes` gets the schedule's; one that starts threads gets strands; and a few pauses
are longer or shorter, so that a schedule is made of steps that matter and not of idle looks.
"""

from __future__ import annotations

import importlib
import random
import secrets
import sys
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from duly.core.failures import reason_record
from duly.core.retry import Backoff
from verification.simulation import threads
from verification.simulation.running import here

if TYPE_CHECKING:
    from collections.abc import Iterator


class SilentHeartbeat:
    """A relay's heartbeat, which no promise depends on: left out, as idle looks are."""

    def __init__(self, runner: object) -> None:
        """As duly's."""

    async def run(self) -> None:
        """Nothing."""

    async def end(self) -> None:
        """Nothing."""


SHORT = Backoff(first=timedelta(milliseconds=200), factor=2, cap=timedelta(seconds=2))
# Pauses, in seconds unless they say otherwise: (module, name, value).
PAUSES: list[tuple[str, str, object]] = [
    ("duly.worker.fetcher", "SOONEST", 0.4),
    ("duly.worker.fetcher", "LATEST", 4.0),
    ("duly.worker.worker", "WATCH", 1.0),
    ("duly.worker.worker", "ROOM", 3.0),
    ("duly.service.maintenance", "COUNTING", 40.0),
    ("duly.worker.scheduler", "LATEST", 60.0),
    ("duly.relay.fetcher", "SOONEST", 0.4),
    ("duly.relay.fetcher", "LATEST", 4.0),
    ("duly.relay.relay", "LATEST", 4.0),
    ("duly.relay.relay", "RelayHeartbeat", SilentHeartbeat),
    ("duly.relay.destination", "CLOSED", SHORT),
    ("duly.jobs.workers", "RESCUE_BACKOFF", SHORT),
    ("duly.jobs.outcome", "RESCUE_BACKOFF", SHORT),
    ("duly.outbox.lease", "RESCUE_BACKOFF", SHORT),
    ("duly.outbox.relay_liveness", "SETTLE", 3600.0),
    ("duly.receiver.metrics", "PAUSE", 15.0),
    # What costs time and says the same every time.
    ("duly.relay.sender", "user_agent", lambda: "duly"),
    ("duly.jobs.workers", "reason_record", lru_cache(maxsize=10)(reason_record)),
    ("duly.outbox.lease", "reason_record", lru_cache(maxsize=10)(reason_record)),
]
# Packages that no schedule plays.
OUTSIDE = ("duly.cli", "duly.server", "duly.testing", "duly.prove", "duly.demo")
# Where threads are started.
THREADED = ("duly.worker.heartbeat", "duly.worker.thread_pool", "duly.worker.executor")


class Time:
    """The module `time`, of the schedule that plays."""

    @staticmethod
    def monotonic() -> float:
        """Seconds on a clock that never jumps."""
        return here().world.now / 1_000_000

    @staticmethod
    def time() -> float:
        """Seconds since 1970."""
        return here().world.wall / 1_000_000

    @staticmethod
    def time_ns() -> int:
        """Nanoseconds since 1970."""
        return here().world.wall * 1000


class Dice:
    """The module `random`, of the schedule that plays."""

    @staticmethod
    def random() -> float:
        """A number from 0 up to, not, 1."""
        return here().world.noise.random()

    @staticmethod
    def shuffle(things: list[Any]) -> None:
        """In any order."""
        here().world.noise.shuffle(things)

    @staticmethod
    def getrandbits(bits: int) -> int:
        """For ids."""
        return here().world.noise.getrandbits(bits)


class Secrets:
    """The module `secrets`, of the schedule that plays: nothing here is secret."""

    @staticmethod
    def token_bytes(size: int) -> bytes:
        """For tokens."""
        return here().world.noise.randbytes(size)


STAND_INS: tuple[tuple[str, object, object], ...] = (
    ("time", time, Time),
    ("random", random, Dice),
    ("secrets", secrets, Secrets),
)


def swaps() -> Iterator[tuple[Any, str, object]]:
    """Each name in a module that is bound to something else while schedules play."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("duly.") and not name.startswith(OUTSIDE):
            for word, real, ours in STAND_INS:
                if getattr(module, word, None) is real:
                    yield module, word, ours
            if getattr(module, "SimpleQueue", None) is SimpleQueue and name in THREADED:
                yield module, "SimpleQueue", threads.SimpleQueue
            if getattr(module, "threading", None) is threading and name in THREADED:
                yield module, "threading", threads.Threading
    yield importlib.import_module("duly.core.ids"), "RANDOM", Dice
    for name, word, value in PAUSES:
        yield importlib.import_module(name), word, value


@contextmanager
def swapped() -> Iterator[None]:
    """While schedules play."""
    before: list[tuple[Any, str, object]] = []
    try:
        for module, word, value in list(swaps()):
            before.append((module, word, getattr(module, word)))
            setattr(module, word, value)
        yield
    finally:
        for module, word, value in reversed(before):
            setattr(module, word, value)
