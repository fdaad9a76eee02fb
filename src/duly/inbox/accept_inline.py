"""Receiving with the work inside: claim, event and handlers in one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.core.defaults import WAIT
from duly.inbox.accept import receive_alone
from duly.inbox.new_event import EventOutcome, Status
from duly.jobs.invoke import run_in_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from duly.core.session import OpenedTransaction
    from duly.inbox.event import Event
    from duly.inbox.new_event import NewEvent
    from duly.jobs.handlers import Handler
    from duly.jobs.registry import Registry


class InlineOpener(Protocol):
    """Whoever can open a transaction: a store, or the user's ORM."""

    def open_transaction(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, committed at the end of the block and rolled back on any error.

        ``lasting`` is how long the handlers may take. PostgreSQL ends a transaction that is left
        idle for longer, so that a server which was stopped does not keep its event for ever.
        """


class InlineWork(NamedTuple):
    """An arrival with the handlers that are to run when it is the first of its event."""

    arrival: NewEvent
    event: Event
    handlers: Sequence[Handler]
    # What the handlers may enqueue.
    jobs: Registry


async def receive_inline(opener: InlineOpener, works: Sequence[InlineWork]) -> list[EventOutcome]:
    """Receive the events of one delivery and handle them, all of them or none."""
    async with opener.open_transaction(wait=WAIT, lasting=total_timeout(works)) as opened:
        return [await receive_and_run(opened, work) for work in works]


def total_timeout(works: Sequence[InlineWork]) -> timedelta | None:
    """How long the handlers of a delivery may take, one after the other; None without any."""
    timeouts = [handler.timeout for work in works for handler in work.handlers]
    return timedelta(microseconds=sum(timeouts)) if timeouts else None


async def receive_and_run(opened: OpenedTransaction, work: InlineWork) -> EventOutcome:
    """One event: remembered, and handled if this is the first time."""
    outcome = await receive_in_transaction(opened, work.arrival)
    if outcome.status is Status.ACCEPTED:
        # The sender's deadline bounds the claim, not the handler's own statements.
        opened.restore_timeouts()
        await run_in_transaction(work.handlers, work.event, opened, work.jobs)
    return outcome


async def receive_in_transaction(opened: OpenedTransaction, arrival: NewEvent) -> EventOutcome:
    """Claim and write in the open transaction, with a bounded wait for whoever has the key."""
    session = opened.session
    if opened.orm is None:  # duly's own connection: each statement carries the bound
        return await receive_alone(session, arrival)
    await session.begin(WAIT)
    async with session.savepoint(), session.limit_lock_waits(WAIT):
        return await receive_alone(session, arrival)
