"""Receiving with the work inside: claim, event and handlers in one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.core.defaults import WAIT
from duly.inbox.accept import receive_alone
from duly.inbox.new_event import Outcome, Status
from duly.jobs.invoke import run_inside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from duly.core.session import Opened
    from duly.inbox.event import Event
    from duly.inbox.new_event import Arrival
    from duly.jobs.handlers import Handler
    from duly.jobs.registry import Registry


class Opener(Protocol):
    """Whoever can open a transaction: a store, or the user's ORM."""

    def opened(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[Opened]:
        """A transaction, committed at the end of the block and rolled back on any error.

        ``lasting`` is how long the handlers may take. PostgreSQL ends a transaction that is left
        idle for longer, so that a server which was stopped does not keep its event for ever.
        """


class Work(NamedTuple):
    """An arrival with the handlers that are to run when it is the first of its event."""

    arrival: Arrival
    event: Event
    handlers: Sequence[Handler]
    # What the handlers may enqueue.
    jobs: Registry


async def receive_inline(opener: Opener, works: Sequence[Work]) -> list[Outcome]:
    """Receive the events of one delivery and handle them, all of them or none."""
    async with opener.opened(wait=WAIT, lasting=time_for(works)) as opened:
        return [await receive_and_run(opened, work) for work in works]


def time_for(works: Sequence[Work]) -> timedelta | None:
    """How long the handlers of a delivery may take, one after the other; None without any."""
    timeouts = [handler.timeout for work in works for handler in work.handlers]
    return timedelta(microseconds=sum(timeouts)) if timeouts else None


async def receive_and_run(opened: Opened, work: Work) -> Outcome:
    """One event: remembered, and handled if this is the first time."""
    outcome = await received(opened, work.arrival)
    if outcome.status is Status.ACCEPTED:
        opened.at_ease()  # the sender's deadline bounds the claim, not the handler's own statements
        await run_inside(work.handlers, work.event, opened, work.jobs)
    return outcome


async def received(opened: Opened, arrival: Arrival) -> Outcome:
    """Claim and write in the open transaction, with a bounded wait for whoever has the key."""
    session = opened.session
    if opened.orm is None:  # duly's own connection: each statement carries the bound
        return await receive_alone(session, arrival)
    await session.begin(WAIT)
    async with session.savepoint(), session.waiting(WAIT):
        return await receive_alone(session, arrival)
