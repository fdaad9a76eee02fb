"""The same event again and again: one after the other, or all at one instant."""

from __future__ import annotations

import threading
from contextlib import closing
from queue import SimpleQueue
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.testing.sender.receiver_connection import ReceiverConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.testing.sender.provider_delivery import ProviderDelivery
    from duly.testing.sender.receiver_connection import DeliveryAnswer
    from duly.webhooks.sign import Signed


def send_one_by_one(
    delivery: ProviderDelivery, count: int, timeout: float
) -> Iterator[DeliveryAnswer]:
    """Attempt after attempt, each on a connection of its own, as the provider would retry."""
    signed = delivery.sign_attempt()
    for number in range(count):
        if number and delivery.signs_each_attempt:
            signed = delivery.sign_attempt()
        with closing(ReceiverConnection(delivery.url, timeout)) as line:
            yield line.open() or line.post(signed)


def send_all_at_once(
    delivery: ProviderDelivery, count: int, timeout: float
) -> Iterator[DeliveryAnswer]:
    """Copies from as many threads, which let go together once all of them are connected."""
    burst = Burst(delivery, count, timeout)
    burst.start()
    for _ in range(count):
        came = burst.answers.get()
        if isinstance(came, Exception):
            raise came
        yield came


class Burst:
    """Threads at a barrier, and their answers in the order of arrival."""

    def __init__(self, delivery: ProviderDelivery, count: int, timeout: float) -> None:
        self.answers: SimpleQueue[DeliveryAnswer | Exception] = SimpleQueue()
        self._delivery = delivery
        self._timeout = timeout
        self._count = count
        # Signed when the last one has connected: a signature may be good for a few seconds only.
        self._barrier = threading.Barrier(count, self._sign)
        self._signed: Signed = delivery.sign_attempt()

    def start(self) -> None:
        """Begin; threads that still wait when the program is interrupted end with it."""
        try:
            for _ in range(self._count):
                threading.Thread(target=self._report_answer, daemon=True).start()
        except RuntimeError as problem:
            self._barrier.abort()
            raise UsageError(
                f"--concurrent {self._count} must be lower: the system gives no more threads"
            ) from problem

    @property
    def waiting(self) -> int:
        """How many are connected and wait for the others."""
        return self._barrier.n_waiting

    def _sign(self) -> None:
        self._signed = self._delivery.sign_attempt()

    def _report_answer(self) -> None:
        try:
            self.answers.put(self._send_copy())
        except Exception as problem:  # raised again in the thread that waits for the answer
            self.answers.put(problem)

    def _send_copy(self) -> DeliveryAnswer:
        with closing(ReceiverConnection(self._delivery.url, self._timeout)) as line:
            failed = line.open()
            self._barrier.wait()  # also after a failure: the others count on this thread
            return failed or line.post(self._signed)
