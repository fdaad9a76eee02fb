"""The same event again and again: one after the other, or all at one instant."""

from __future__ import annotations

import threading
from contextlib import closing
from queue import SimpleQueue
from typing import TYPE_CHECKING

from duly.core.errors import Misuse
from duly.testing.sending.posting import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.testing.sending.parcels import Parcel
    from duly.testing.sending.posting import Answer
    from duly.webhooks.sign import Signed


def one_by_one(parcel: Parcel, count: int, timeout: float) -> Iterator[Answer]:
    """Attempt after attempt, each on a connection of its own, as the provider would retry."""
    signed = parcel.attempt()
    for number in range(count):
        if number and parcel.signed_anew:
            signed = parcel.attempt()
        with closing(Line(parcel.url, timeout)) as line:
            yield line.open() or line.post(signed)


def all_at_once(parcel: Parcel, count: int, timeout: float) -> Iterator[Answer]:
    """Copies from as many threads, which let go together once all of them are connected."""
    burst = Burst(parcel, count, timeout)
    burst.start()
    for _ in range(count):
        came = burst.answers.get()
        if isinstance(came, Exception):
            raise came
        yield came


class Burst:
    """Threads at a barrier, and the answers in the order in which they came."""

    def __init__(self, parcel: Parcel, count: int, timeout: float) -> None:
        self.answers: SimpleQueue[Answer | Exception] = SimpleQueue()
        self._parcel = parcel
        self._timeout = timeout
        self._count = count
        # Signed when the last one has connected: a signature may be good for a few seconds only.
        self._barrier = threading.Barrier(count, self._sign)
        self._signed: Signed = parcel.attempt()

    def start(self) -> None:
        """Begin; threads that still wait when the program is interrupted end with it."""
        try:
            for _ in range(self._count):
                threading.Thread(target=self._report, daemon=True).start()
        except RuntimeError as problem:
            self._barrier.abort()
            raise Misuse(
                f"--concurrent {self._count} must be lower: the system gives no more threads"
            ) from problem

    @property
    def waiting(self) -> int:
        """How many are connected and wait for the others."""
        return self._barrier.n_waiting

    def _sign(self) -> None:
        self._signed = self._parcel.attempt()

    def _report(self) -> None:
        try:
            self.answers.put(self._answer())
        except Exception as problem:  # raised again by whoever waits for the answer
            self.answers.put(problem)

    def _answer(self) -> Answer:
        with closing(Line(self._parcel.url, self._timeout)) as line:
            failed = line.open()
            self._barrier.wait()  # also after a failure: the others count on this thread
            return failed or line.post(self._signed)
