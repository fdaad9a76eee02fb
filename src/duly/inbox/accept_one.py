"""Receiving one event step by step in an open transaction, with its handlers where it is inline."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from duly.core.answers import Duplicate, First
from duly.core.defaults import WAIT
from duly.core.states import ClaimState
from duly.inbox.new_event import EventOutcome, Flag, Status, audit_key
from duly.inbox.statements import EVENTS_CONFLICTS, EVENTS_INSERT
from duly.jobs.enqueue import job_row
from duly.jobs.invoke import run_in_transaction
from duly.jobs.statements import JOBS_INSERT, JOBS_OF_EVENT
from duly.ledger.claims import Terms, claim, release
from duly.ledger.statements import CLAIMS_READ

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from duly.core.answers import Answer
    from duly.core.keys import Key
    from duly.core.session import OpenedTransaction, Row, Session
    from duly.inbox.new_event import NewEvent
    from duly.jobs.registry import Registries

DUPLICATE = EventOutcome(Status.DUPLICATE)
DIFFERENT = EventOutcome(Status.DUPLICATE, body_differs=True)
CONFLICT = EventOutcome(Status.CONFLICT)
# How many ids one body is recorded under; the rest is counted.
CONFLICTS_FOR_BODY = 50


async def receive_alone(session: Session, event: NewEvent) -> EventOutcome:
    """Receive one event step by step in the open transaction, waiting for its key if it is held."""
    terms = Terms(event.token, event.ttl)
    guard = event.replay_key
    seen = None
    if guard is not None:
        seen = await claim(session, guard, terms, fingerprint=event.fingerprint)
    at_work = guard is not None and await has_live_jobs(session, guard, seen)
    if at_work or isinstance(seen, Duplicate):
        return await receive_known_body(session, event, terms, at_work=at_work)
    answer = await claim(session, event.key, terms, fingerprint=event.fingerprint)
    if isinstance(answer, First):
        if await has_live_jobs(session, event.key, answer):
            return DUPLICATE
        await write_event(session, event)
        return EventOutcome(event.status)
    if guard is not None:
        await release(session, guard, event.token, ClaimState.DONE)
    if not answer.body_differs:
        return DUPLICATE
    return (
        DIFFERENT if event.signed else await record_conflict(session, event, Flag.CONFLICT, terms)
    )


async def has_live_jobs(session: Session, key: Key, answer: Answer | None) -> bool:
    """Whether a claim whose time was over, and that was just taken anew, has jobs all the same."""
    if not isinstance(answer, First) or answer.epoch == 1:
        return False
    return bool(await session.rows(JOBS_OF_EVENT, scope=key.scope, digest=key.digest))


async def receive_known_body(
    session: Session, event: NewEvent, terms: Terms, *, at_work: bool
) -> EventOutcome:
    """A known body: a duplicate under the id it came with, a conflict under any other.

    An id that is known with this very body is the same event, even if its own claim has run out:
    the one on its body has not.
    """
    row = await read_claim(session, event)
    if row is not None and not row["held"]:
        if same_body(row, event):
            return DUPLICATE
        if at_work or not row["free"]:
            return await record_conflict(session, event, Flag.CONFLICT, terms)
    return await record_conflict(session, event, Flag.REPLAYED_BODY, terms)


async def record_conflict(
    session: Session, event: NewEvent, flag: Flag, terms: Terms
) -> EventOutcome:
    """Store what will not be processed, for a person to look at. It claims no event.

    Each id is recorded once for a body, a bounded number of ids, and the body with the first of
    them: a sender that repeats it under new ids again and again fills no disk.
    """
    if await has_enough_conflicts(session, event):
        return CONFLICT
    recorded = await claim(session, audit_key(event, event.digest), terms)
    if isinstance(recorded, First):
        kept = await claim(session, audit_key(event), terms)
        body = event.body if isinstance(kept, First) else None
        await write_event(
            session, event._replace(flag=flag, status=Status.CONFLICT, jobs=(), body=body)
        )
    return CONFLICT


async def has_enough_conflicts(session: Session, event: NewEvent) -> bool:
    """Whether this body was recorded under so many ids that more of them say nothing new."""
    if event.replay is None:
        return False
    rows = await session.rows(
        EVENTS_CONFLICTS, scope=event.scope, replay=event.replay, most=CONFLICTS_FOR_BODY
    )
    return len(rows) >= CONFLICTS_FOR_BODY


async def read_claim(session: Session, event: NewEvent) -> Row | None:
    """The claim of the event as it stands."""
    rows = await session.rows(
        CLAIMS_READ, scope=event.scope, digest=event.digest, token=event.token
    )
    return rows[0] if rows else None


def same_body(row: Row, event: NewEvent) -> bool:
    """Whether the claim was made with this body, as far as it says."""
    before = row["fingerprint"]
    return before is None or bytes(before) == event.fingerprint


async def write_event(session: Session, event: NewEvent) -> None:
    """Write the event with its first delivery, and its jobs; the claim is made already."""
    await session.rows(EVENTS_INSERT, **event.row())
    for job in event.jobs:
        await session.rows(JOBS_INSERT, **job_row(event.scope, event.id, job))


class InlineOpener(Protocol):
    """Opens transactions: a store, or the user's ORM."""

    def open_transaction(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, committed at the end of the block and rolled back on any error.

        ``lasting`` is how long the handlers may take. PostgreSQL ends a transaction that is left
        idle for longer, so that a server which was stopped does not keep its event for ever.
        """


async def receive_inline(
    opener: InlineOpener, events: Sequence[NewEvent], registries: Registries | None
) -> list[EventOutcome]:
    """Receive the events of one delivery and handle them, all of them or none.

    ``registries`` is what the handlers may enqueue and send.
    """
    timeouts = [handler.timeout for event in events for handler in event.handlers]
    lasting = timedelta(microseconds=sum(timeouts)) if timeouts else None
    async with opener.open_transaction(wait=WAIT, lasting=lasting) as opened:
        return [await receive_and_run(opened, event, registries) for event in events]


async def receive_and_run(
    opened: OpenedTransaction, event: NewEvent, registries: Registries | None
) -> EventOutcome:
    """Claim and write one event, and run its handlers if it is new."""
    session = opened.session
    if opened.orm is None:  # duly's own connection: each statement carries the bound
        outcome = await receive_alone(session, event)
    else:
        await session.begin(WAIT)
        async with session.savepoint(), session.limit_lock_waits(WAIT):
            outcome = await receive_alone(session, event)
    if outcome.status is Status.ACCEPTED and event.event is not None and registries is not None:
        # The sender's deadline bounds the claim, not the handler's own statements.
        opened.restore_timeouts()
        await run_in_transaction(event.handlers, event.event, opened, registries)
    return outcome
