"""A gate before the database: a test sees which batches are under way, and holds them there.

The runner behind it is the store's own. A gate may also end whoever passes it.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import duly
from duly.core.session import Operation, Runner
from tests.receiver.faults.doors import PATIENCE, Answer
from tests.receiver.faults.shops import Shop
from tests.support.processes import until

T = TypeVar("T")


class Gate:
    """A runner that counts the batches under way; ``shut`` holds them before the database."""

    # What happens to whoever comes: before the database has heard of it, and after.
    before: Callable[[], None]
    after: Callable[[], None]

    def __init__(self, runner: Runner, *, awaited: bool) -> None:
        self._runner = runner
        self._awaited = awaited
        self._opened = threading.Event()
        self._opened.set()
        self._lock = threading.Lock()
        self.under_way = self.most = self.batches = 0
        self.before = self.after = nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def shut(self) -> None:
        """Hold every batch that comes from now on."""
        self._opened.clear()

    def open(self) -> None:
        """Let all go."""
        self._opened.set()

    def full(self, number: int = 2) -> None:
        """Wait until so many are under way."""
        until(lambda: self.under_way == number or None)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """Pass the gate, then run."""
        self._count(+1)
        try:
            if self._awaited:
                while not self._opened.is_set():  # noqa: ASYNC110  # opened from another thread
                    await asyncio.sleep(0.002)
            else:
                self._opened.wait(PATIENCE)  # a test that failed opens no gate
            self.before()
            done = await self._runner.run_batch(operation, within=within)
            self.after()
            return done
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self.under_way += change
            self.batches += change > 0
            self.most = max(self.most, self.under_way)


def nothing() -> None:
    """Let pass."""


def gated(app: duly.Duly, way: str) -> Gate:
    """Put a gate between an application that has not been used yet and its store."""
    receiver = app.receiver
    if way == "asgi":
        gate = Gate(receiver._async_runner, awaited=True)
        receiver._async_runner = gate
    else:
        gate = Gate(receiver._sync_runner, awaited=False)
        receiver._sync_runner = gate
    return gate


def occupied(shop: Shop, gate: Gate) -> list[Future[Answer]]:
    """Two requests, each in a batch of its own, that are held at the gate from now on."""
    gate.shut()
    under_way = []
    for number in (1, 2):
        under_way.append(shop.send(shop.delivery()))
        gate.full(number)
    return under_way


def queued(app: duly.Duly, way: str, number: int) -> None:
    """Wait until so many deliveries wait for the next batch."""
    receiver = app.receiver
    latest = list(receiver._group_commits.values())[-1:]
    lane: Any = latest[0] if way == "asgi" else receiver._thread_group_commit
    until(lambda: len(lane._queue.tickets) == number or None)
