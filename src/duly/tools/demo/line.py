"""The line between the sender and the workers: two pipes, one record to a write.

A write of one record to a pipe is one step for the kernel, so a worker that is killed at any
instruction has answered a delivery or has not, and never by half. All workers read the same pipe:
whoever is free takes the next delivery.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from duly.tools.demo.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Delivery: its number, the event's number, the amount, long or not.
DELIVERY = struct.Struct("<QQQ?7x")
# Answer: the delivery's number, the process, milliseconds until to come back, the outcome.
ANSWER = struct.Struct("<QQQB7x")
# POSIX promises at least 512 bytes to a write that is one step.
AT_ONCE = 512 // DELIVERY.size
# A read of whole records, however many are waiting.
MANY_ANSWERS = ANSWER.size * 1024


class Outcome(IntEnum):
    """What a worker says about a delivery. `WORKING` is a note on the way, not an answer."""

    FIRST = 1
    DUPLICATE = 2
    LATER = 3
    REFUSED = 4
    WORKING = 5


@dataclass(frozen=True, slots=True)
class Delivery:
    """One arrival of an event."""

    number: int
    event: Event


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a delivery; ``retry_after`` in seconds where it was told to come back."""

    delivery: int
    process: int
    outcome: Outcome
    retry_after: float = 0.0


class Line:
    """Both ends of both pipes, as the sender has them and its forked workers inherit them."""

    def __init__(self) -> None:
        self.deliveries_to_read, self._deliveries = os.pipe()
        self._answers, self.answers_to_write = os.pipe()
        os.set_blocking(self._deliveries, False)
        os.set_blocking(self._answers, False)
        self._backlog: deque[bytes] = deque()

    def send(self, deliveries: Iterable[Delivery]) -> None:
        """Put deliveries on the line; what does not fit now goes first the next time."""
        records = [
            DELIVERY.pack(one.number, one.event.number, one.event.amount, one.event.long)
            for one in deliveries
        ]
        for start in range(0, len(records), AT_ONCE):
            self._backlog.append(b"".join(records[start : start + AT_ONCE]))
        with suppress(BlockingIOError):
            while self._backlog:
                os.write(self._deliveries, self._backlog[0])
                self._backlog.popleft()

    def hear(self) -> Iterator[Answer]:
        """Every answer that has arrived."""
        with suppress(BlockingIOError):
            while records := os.read(self._answers, MANY_ANSWERS):
                for delivery, process, milliseconds, outcome in ANSWER.iter_unpack(records):
                    yield Answer(delivery, process, Outcome(outcome), milliseconds / 1000)

    def keep_workers_ends(self) -> None:
        """In a worker: close the sender's ends, or the line would never go dead."""
        os.close(self._deliveries)
        os.close(self._answers)

    def hang_up(self) -> None:
        """No more deliveries: a worker ends when it has taken the last one."""
        os.close(self._deliveries)
        self._deliveries = -1

    def close(self) -> None:
        """Close whatever is open."""
        ends = (self._deliveries, self.deliveries_to_read, self._answers, self.answers_to_write)
        for end in ends:
            if end >= 0:
                os.close(end)


def incoming(end: int) -> Iterator[Delivery]:
    """A worker's deliveries, until the sender hangs up."""
    while record := os.read(end, DELIVERY.size):
        number, event, amount, long = DELIVERY.unpack(record)
        yield Delivery(number, Event(event, amount, long))


def reply(end: int, answer: Answer) -> None:
    """A worker's answer, in one step."""
    milliseconds = round(answer.retry_after * 1000)
    os.write(end, ANSWER.pack(answer.delivery, answer.process, milliseconds, answer.outcome))
