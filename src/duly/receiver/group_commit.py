"""Group commit of one event loop: requests share commits, each is answered after its own.

At most two batches are in flight. A request that is cancelled leaves its batch alone: the others
in it do not notice, and what was committed for it is a duplicate when its sender comes again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import StoreUnavailable
from duly.inbox.accept import receive_many
from duly.receiver.commit_queue import IN_FLIGHT, CommitQueue, Ticket, commit_timeout_error
from duly.receiver.one_by_one import OneByOne

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.session import Runner
    from duly.inbox.new_event import EventOutcome, NewEvent


@dataclass(slots=True, eq=False)
class FutureTicket(Ticket):
    """A delivery and the future its request waits for."""

    answer: asyncio.Future[list[EventOutcome | None]]
    until: float


class GroupCommit:
    """Group commit for the requests of one event loop."""

    def __init__(self, runner: Runner, *, most: int, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._queue: CommitQueue[FutureTicket] = CommitQueue(most)
        self._unanswered: dict[FutureTicket, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = False
        self._watch: asyncio.TimerHandle | None = None
        self._one_by_one = OneByOne(runner, deadline)

    async def receive(self, events: Sequence[NewEvent]) -> list[EventOutcome]:
        """Have the events of one delivery committed, and return the outcome of each."""
        until = self._loop.time() + self._deadline
        size = sum([len(event.body or b"") for event in events])
        ticket = FutureTicket(events, size, self._loop.create_future(), until)
        self._queue.put(ticket)
        self._unanswered[ticket] = None
        if self._watch is None:
            self._watch = self._loop.call_at(until, self._expire)
        if not self._starting and len(self._tasks) < IN_FLIGHT:
            # The task begins after the requests that are ready now: those it takes along.
            self._starting = True
            task = self._loop.create_task(self._commit_batches())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            outcomes = await ticket.answer
        finally:
            self._unanswered.pop(ticket, None)
        return [
            outcome if outcome is not None else await self._one_by_one.receive(event, until)
            for event, outcome in zip(events, outcomes, strict=True)
        ]

    async def _commit_batches(self) -> None:
        """Commit batch after batch until the queue is empty."""
        self._starting = False
        while self._queue.tickets:
            batch = [ticket for ticket in self._queue.take() if not ticket.answer.done()]
            if not batch:
                continue
            events = [event for ticket in batch for event in ticket.events]
            try:
                outcomes = iter(await receive_many(self._runner, events))
            except Exception as problem:  # the outcome is unknown: nothing is acknowledged
                fail_tickets(batch, problem)
                continue
            except BaseException:
                fail_tickets(
                    batch, StoreUnavailable("the receiver is shutting down: send it again")
                )
                raise
            for ticket in batch:
                found = [next(outcomes) for _ in ticket.events]
                if not ticket.answer.done():
                    ticket.answer.set_result(found)

    def _expire(self) -> None:
        """Fail the tickets whose time is over; the oldest come first."""
        self._watch = None
        now = self._loop.time()
        for ticket in list(self._unanswered):
            if ticket.until > now:
                self._watch = self._loop.call_at(ticket.until, self._expire)
                return
            fail_tickets([ticket], commit_timeout_error(self._deadline))
            self._unanswered.pop(ticket, None)
            self._queue.drop(ticket)


def fail_tickets(tickets: Sequence[FutureTicket], problem: Exception) -> None:
    """Fail every request of a batch: nothing may be acknowledged."""
    for ticket in tickets:
        if not ticket.answer.done():
            ticket.answer.set_exception(problem)
