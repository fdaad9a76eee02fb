"""The commit queue: where deliveries wait for a commit, its bounds, and the size of a batch.

While commits are in flight the next batch gathers, so an idle server adds no delay and a busy one
no extra commits. There is no timer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from duly.core.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.inbox.new_event import NewEvent

# More than two bring nothing: the database commits one while the other is being filled.
IN_FLIGHT: Final = 2
# A batch holds its locks until it is committed, and is one message to the database.
BATCH_EVENTS: Final = 256
BATCH_BYTES: Final = 4 * 1024 * 1024
# What may wait in memory, all of it verified; the sender of any more is told to come again.
WAITING_BYTES: Final = 64 * 1024 * 1024
RETRY_AFTER: Final = timedelta(seconds=1)


class Overloaded(Exception):  # a state, not an error
    """More is waiting for a commit than may wait; the sender is to come again."""


def overloaded_error() -> Overloaded:
    """The error of a full commit queue."""
    return Overloaded("too many deliveries are waiting to be written: come again in a moment")


def commit_timeout_error(deadline: float) -> StoreUnavailable:
    """The error of a delivery that was not committed in time. It may be committed later."""
    return StoreUnavailable(
        f"the database did not commit this within {deadline:g} seconds: send it again"
    )


@dataclass(slots=True, eq=False)
class Ticket:
    """One delivery in a commit queue, with all its events."""

    events: Sequence[NewEvent]
    size: int  # bytes of its bodies
    weight: int = field(default=0, init=False)  # events it counts for, set when it is queued


T = TypeVar("T", bound=Ticket)


class CommitQueue(Generic[T]):
    """The tickets that wait for a commit, bounded in number of events and in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.tickets: deque[T] = deque()
        self._events = 0
        self._bytes = 0

    def put(self, ticket: T) -> None:
        """Queue a ticket, or raise `Overloaded`.

        One that is larger than the whole bound may still wait alone, and counts for half of the
        events at most: it must not close the queue to the others.
        """
        ticket.weight = min(len(ticket.events), max(self._most // 2, 1))
        if self.tickets and (
            self._events + ticket.weight > self._most or self._bytes + ticket.size > WAITING_BYTES
        ):
            raise overloaded_error()
        self.tickets.append(ticket)
        self._events += ticket.weight
        self._bytes += ticket.size

    def take(self) -> list[T]:
        """The next batch: the oldest tickets, at least one, as many as may travel together."""
        batch: list[T] = []
        events = size = 0
        while self.tickets:
            ticket = self.tickets[0]
            events += len(ticket.events)
            size += ticket.size
            if batch and (events > BATCH_EVENTS or size > BATCH_BYTES):
                break
            batch.append(self.tickets.popleft())
            self._events -= ticket.weight
            self._bytes -= ticket.size
        return batch

    def drop(self, ticket: T) -> None:
        """Take out a ticket whose request was answered."""
        if ticket in self.tickets:
            self.tickets.remove(ticket)
            self._events -= ticket.weight
            self._bytes -= ticket.size
