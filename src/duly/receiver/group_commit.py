"""Group commit of one event loop: requests share commits, each is answered after its own.

At most two batches are in flight. Each delivery is queued with a callback, which is called once: as
soon as its batch is committed, from the commit itself, or when its time is over. A request that has
gone leaves its batch alone: the others in it do not notice, and what was committed for it is a
duplicate when its sender comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import StoreUnavailable
from duly.inbox.accept import receive_many
from duly.receiver.commit_queue import IN_FLIGHT, CommitQueue, Ticket, commit_timeout_error
from duly.receiver.one_by_one import OneByOne

if TYPE_CHECKING:
    from duly.core.session import Runner
    from duly.inbox.new_event import EventOutcome, NewEvent

logger = logging.getLogger("duly")
# What became of the events of a delivery, or why nothing of it is known to be committed. None
# stands for an event that must be received alone.
Result = Sequence["EventOutcome | None"] | Exception
OnResult = Callable[["CallbackTicket", Result], None]


@dataclass(slots=True, eq=False)
class CallbackTicket(Ticket):
    """A delivery in the queue, and what to call with its result."""

    until: float
    on_result: OnResult | None  # None once it was called, or where the request has gone


class GroupCommit:
    """Group commit for the requests of one event loop."""

    def __init__(self, runner: Runner, *, most: int, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._queue: CommitQueue[CallbackTicket] = CommitQueue(most)
        self._unanswered: dict[CallbackTicket, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Tasks that commit, or are about to: counted by themselves, since a delivery may be queued
        # between the end of a task and the moment when the event loop reports it.
        self._in_flight = 0
        self._starting = False
        self._watch: asyncio.TimerHandle | None = None
        self._one_by_one = OneByOne(runner, deadline)

    def submit(self, events: Sequence[NewEvent], on_result: OnResult) -> CallbackTicket:
        """Queue the events of one delivery; call ``on_result`` once, and never before returning.

        Raises `Overloaded` where the queue is full.
        """
        until = self._loop.time() + self._deadline
        size = sum([len(event.body or b"") for event in events])
        ticket = CallbackTicket(events, size, until, on_result)
        self._queue.put(ticket)
        self._unanswered[ticket] = None
        if self._watch is None:
            self._watch = self._loop.call_at(until, self._expire)
        if not self._starting and self._in_flight < IN_FLIGHT:
            # The task begins after the requests that are ready now: those it takes along.
            self._starting = True
            self._in_flight += 1
            task = self._loop.create_task(self._commit_batches())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return ticket

    async def receive(self, events: Sequence[NewEvent]) -> list[EventOutcome]:
        """Have the events of one delivery committed, and return the outcome of each."""
        answer: asyncio.Future[Sequence[EventOutcome | None]] = self._loop.create_future()

        def set_answer(_: CallbackTicket, result: Result) -> None:
            if answer.done():  # cancelled, and its task has not run since
                return
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        ticket = self.submit(events, set_answer)
        try:
            outcomes = await answer
        finally:
            self.forget(ticket)
        return await self.complete(ticket, outcomes)

    def forget(self, ticket: CallbackTicket) -> None:
        """Call nothing for a request that has gone; its events are not written if they wait."""
        ticket.on_result = None
        self._unanswered.pop(ticket, None)

    async def complete(
        self, ticket: CallbackTicket, outcomes: Sequence[EventOutcome | None]
    ) -> list[EventOutcome]:
        """Receive alone what could not be received with the batch; return all outcomes."""
        return [
            outcome if outcome is not None else await self._one_by_one.receive(event, ticket.until)
            for event, outcome in zip(ticket.events, outcomes, strict=True)
        ]

    async def _commit_batches(self) -> None:
        """Commit batch after batch until the queue is empty."""
        self._starting = False
        try:
            while self._queue.tickets:
                await self._commit_batch()
        finally:
            self._in_flight -= 1

    async def _commit_batch(self) -> None:
        """Commit the oldest tickets that may travel together, and report what became of them."""
        batch = [ticket for ticket in self._queue.take() if ticket.on_result is not None]
        if not batch:
            return
        events = [event for ticket in batch for event in ticket.events]
        try:
            outcomes = await receive_many(self._runner, events)
        except Exception as problem:  # the outcome is unknown: nothing is acknowledged
            for ticket in batch:
                self._call_back(ticket, problem)
            return
        except BaseException:
            stopped = StoreUnavailable("the receiver is shutting down: send it again")
            for ticket in batch:
                self._call_back(ticket, stopped)
            raise
        start = 0
        for ticket in batch:
            end = start + len(ticket.events)
            self._call_back(ticket, outcomes[start:end])
            start = end

    def _expire(self) -> None:
        """Fail the tickets whose time is over; the oldest come first."""
        self._watch = None
        now = self._loop.time()
        for ticket in list(self._unanswered):
            if ticket.until > now:
                self._watch = self._loop.call_at(ticket.until, self._expire)
                return
            self._queue.drop(ticket)
            self._call_back(ticket, commit_timeout_error(self._deadline))

    def _call_back(self, ticket: CallbackTicket, result: Result) -> None:
        """Report the result, once; an error of one callback must not reach the other tickets."""
        self._unanswered.pop(ticket, None)
        on_result, ticket.on_result = ticket.on_result, None
        if on_result is None:
            return
        try:
            on_result(ticket, result)
        except Exception:
            logger.exception("a delivery could not be answered after its commit")
