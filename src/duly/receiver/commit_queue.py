"""What both lanes of the receiving path share: tickets, bounds, and how many travel together.

A lane is where deliveries wait for a commit. While commits are in flight the next batch gathers,
so an idle server adds no delay and a busy one no extra commits. There is no timer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from duly.core.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.inbox.new_event import NewEvent

# More than two bring nothing: the database commits one while the other is being filled.
IN_FLIGHT: Final = 2
# A batch holds its locks until it is committed, and is one message to the database.
BATCH_EVENTS: Final = 256
BATCH_BYTES: Final = 4 * 1024 * 1024
# What may wait in memory, all of it verified: more is told to come again.
WAITING_BYTES: Final = 64 * 1024 * 1024
RETRY_AFTER: Final = timedelta(seconds=1)


class Overloaded(Exception):  # a state, not an error of anybody's
    """More is waiting for a commit than may wait; the sender is to come again."""


def overloaded_error() -> Overloaded:
    """The error of a full lane."""
    return Overloaded("too many deliveries are waiting to be written: come again in a moment")


def commit_timeout_error(deadline: float) -> StoreUnavailable:
    """The error of a delivery that was not committed in time. It may be committed later."""
    return StoreUnavailable(
        f"the database did not commit this within {deadline:g} seconds: send it again"
    )


def size_of(events: Sequence[NewEvent]) -> int:
    """What the bodies of a delivery take in memory."""
    return sum([len(event.body or b"") for event in events])


@dataclass(slots=True, eq=False)
class Ticket:
    """One delivery in a lane, with all its events."""

    events: Sequence[NewEvent]
    size: int


T = TypeVar("T", bound=Ticket)


class CommitQueue(Generic[T]):
    """The tickets that wait, bounded in number of events and in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tickets: deque[T] = deque()
        self._events = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def put(self, ticket: T) -> None:
        """Let a ticket in, or say that there is no room.

        One that is larger than all the room there is may still wait alone.
        """
        if self._tickets and (
            self._events + self._weight(ticket) > self._most
            or self._bytes + ticket.size > WAITING_BYTES
        ):
            raise overloaded_error()
        self._tickets.append(ticket)
        self._events += self._weight(ticket)
        self._bytes += ticket.size

    def _weight(self, ticket: T) -> int:
        """How many events it counts for: one large delivery alone must not shut the lane."""
        return min(len(ticket.events), max(self._most // 2, 1))

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._tickets)

    def take(self) -> list[T]:
        """The next batch: the oldest tickets, at least one, as many as may travel together."""
        batch: list[T] = []
        events = size = 0
        while self._tickets:
            ticket = self._tickets[0]
            events += len(ticket.events)
            size += ticket.size
            if batch and (events > BATCH_EVENTS or size > BATCH_BYTES):
                break
            batch.append(self._pop_oldest())
        return batch

    def _pop_oldest(self) -> T:
        ticket = self._tickets.popleft()
        self._events -= self._weight(ticket)
        self._bytes -= ticket.size
        return ticket

    def drop(self, ticket: T) -> None:
        """Take out a ticket whose owner has gone."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            self._events -= self._weight(ticket)
            self._bytes -= ticket.size
