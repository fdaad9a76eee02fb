"""Group commit of threads: the first threads lead a batch, the others follow.

The first threads become leaders and commit what waits, their own delivery included. A thread that
comes meanwhile waits; when a leader is done it makes the thread that came last the next one, which
has most of its time left, and goes to answer its own request.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.core.errors import StoreUnavailable
from duly.core.onestep import finish
from duly.inbox.accept import receive_many
from duly.receiver.commit_queue import IN_FLIGHT, CommitQueue, Ticket, commit_timeout_error
from duly.receiver.one_by_one import ThreadOneByOne

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.session import Runner
    from duly.inbox.new_event import EventOutcome, NewEvent


@dataclass(slots=True, eq=False)
class ThreadTicket(Ticket):
    """A delivery and what its thread waits for: an answer, or to be the next leader."""

    called: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    outcomes: list[EventOutcome | None] | None = None
    problem: Exception | None = None

    @property
    def answered(self) -> bool:
        """Whether a leader has committed it, or failed to."""
        return self.outcomes is not None or self.problem is not None

    def result(self) -> list[EventOutcome | None]:
        """The answer."""
        if self.outcomes is None:
            raise self.problem or StoreUnavailable("the delivery was not written")
        return self.outcomes


class ThreadGroupCommit:
    """Group commit for the threads of one process."""

    def __init__(self, runner: Runner, *, most: int, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._lock = threading.Lock()
        self._queue: CommitQueue[ThreadTicket] = CommitQueue(most)
        self._leaders = 0
        self._one_by_one = ThreadOneByOne(runner, deadline)

    def receive(self, events: Sequence[NewEvent]) -> list[EventOutcome]:
        """Have the events of one delivery committed, and say what became of each."""
        until = time.monotonic() + self._deadline
        outcomes = self._commit_in_batch(events, until)
        return [
            outcome if outcome is not None else self._one_by_one.receive(event, until)
            for event, outcome in zip(events, outcomes, strict=True)
        ]

    def _commit_in_batch(
        self, events: Sequence[NewEvent], until: float
    ) -> list[EventOutcome | None]:
        ticket = ThreadTicket(events, sum([len(event.body or b"") for event in events]))
        with self._lock:
            self._queue.put(ticket)
            if self._leaders < IN_FLIGHT:
                self._leaders += 1
                self._make_leader(ticket)
        while True:
            self._wait(ticket, until)
            with self._lock:
                leads, ticket.leads = ticket.leads, False
                answered = ticket.answered
                if not answered:
                    ticket.called.clear()
            if leads and answered:
                self._promote_next_leader()  # another leader was quicker
            elif leads:
                self._lead_batch(until - time.monotonic())
            if answered:
                return ticket.result()

    def _wait(self, ticket: ThreadTicket, until: float) -> None:
        """Wait for an answer or for the lead, but no longer than allowed."""
        if ticket.called.wait(max(until - time.monotonic(), 0)):
            return
        with self._lock:
            if not ticket.called.is_set():
                self._queue.drop(ticket)  # a leader that has it already answers it in vain
                raise commit_timeout_error(self._deadline)

    def _lead_batch(self, within: float) -> None:
        """Commit the oldest that wait, in the time this thread has, then hand the lead on."""
        with self._lock:
            batch = self._queue.take()
        problem: Exception = StoreUnavailable("the receiver is shutting down: send it again")
        outcomes: list[EventOutcome | None] | None = None
        events = [event for ticket in batch for event in ticket.events]
        try:
            if events:
                outcomes = finish(receive_many(self._runner, events, within=within))
        except Exception as found:  # the outcome is unknown: nothing is acknowledged
            problem = found
        finally:  # also if this thread is being ended
            self._answer(batch, outcomes, problem)
            self._promote_next_leader()

    def _answer(
        self,
        batch: Sequence[ThreadTicket],
        outcomes: list[EventOutcome | None] | None,
        problem: Exception,
    ) -> None:
        found = None if outcomes is None else iter(outcomes)
        for ticket in batch:
            if found is None:
                ticket.problem = problem
            else:
                ticket.outcomes = [next(found) for _ in ticket.events]
        with self._lock:
            for ticket in batch:
                ticket.called.set()

    def _promote_next_leader(self) -> None:
        """Make the thread that came last the next leader: it has most of its time left."""
        with self._lock:
            heir = next(
                (ticket for ticket in reversed(self._queue.tickets) if not ticket.leads), None
            )
            if heir is None:
                self._leaders -= 1
            else:
                self._make_leader(heir)

    def _make_leader(self, ticket: ThreadTicket) -> None:
        ticket.leads = True
        ticket.called.set()
