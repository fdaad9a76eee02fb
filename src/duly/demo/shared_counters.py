"""Numbers that all processes of a storm see: counted by one of them, read by the others."""

from __future__ import annotations

import mmap
from enum import IntEnum, auto


class CounterIndex(IntEnum):
    """Which number it is. Each is written by one process only."""

    # Written by the sender.
    SENT = 0
    ACCEPTED = auto()
    DUPLICATE = auto()
    CONFLICT = auto()
    REFUSED = auto()
    UNAVAILABLE = auto()
    NO_REPLY = auto()
    EVENTS = auto()
    UNACKNOWLEDGED = auto()
    STREAM_OVER = auto()
    SENDER_DONE = auto()
    # Written by whoever runs the storm.
    END_STREAM = auto()
    CONTENT = auto()  # every kind of fault was there
    CALM = auto()  # whoever misbehaves on purpose stops doing so
    ENDED = auto()  # events that are done, or dead
    # Written by the proxy and the receiver downstream.
    REPLIES_LOST = auto()
    REQUESTS_LOST = auto()
    RECEIPTS = auto()
    # And from here on by each process, in its own place.
    OWN = auto()


# Processes there can be; each has a few numbers of its own.
SLOTS = 64


def up_index(slot: int) -> int:
    """Where a process says that it is up, by its id."""
    return CounterIndex.OWN + 2 * slot


def wrapping_index(slot: int) -> int:
    """Where a worker says how many gifts it is wrapping."""
    return CounterIndex.OWN + 2 * slot + 1


class SharedCounters:
    """The numbers, in memory that a fork shares."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (len(CounterIndex) + 2 * SLOTS))
        self._numbers = memoryview(self._memory).cast("Q")

    def __getitem__(self, place: int) -> int:
        return self._numbers[place]

    def __setitem__(self, place: int, value: int) -> None:
        self._numbers[place] = value

    def add(self, place: int, more: int = 1) -> None:
        """Count."""
        self._numbers[place] += more
