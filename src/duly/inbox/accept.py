"""Group commit of new events: claim, event, delivery and jobs, all of them or none.

One statement (PostgreSQL) or one transaction (SQLite) takes every event of a batch that was never
claimed. A copy of a known event is answered from its claim. The rest, because it conflicts, its
claim has expired or another transaction holds it, is left to `accept_one`: step by step, in a
transaction of its own, so that it cannot delay or fail its neighbours.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import InProgress, StoreRefused, StoreUnavailable
from duly.inbox.accept_one import DIFFERENT, DUPLICATE, delivery_row, read_claim, same_body
from duly.inbox.new_event import EventOutcome, Status
from duly.inbox.statements import DELIVERIES_INSERT, EVENTS_INSERT, INBOX_ACCEPT
from duly.jobs.enqueue import job_row
from duly.jobs.statements import JOBS_INSERT
from duly.ledger.claims import Terms, claim_values
from duly.ledger.statements import CLAIMS_INSERT, CLAIMS_READ

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.core.session import Row, Runner, Session, Value
    from duly.inbox.new_event import NewEvent

Outcomes = dict[bytes, EventOutcome]
NO_DIGEST = bytes(32)


async def receive_many(
    runner: Runner, events: Sequence[NewEvent], *, within: float | None = None
) -> list[EventOutcome | None]:
    """Receive many at once; None stands for those that must be received alone.

    Raises `StoreUnavailable` where the outcome is unknown: then nothing may be acknowledged.
    """
    leading = UniqueByKey(events)
    try:
        outcomes = await runner.run_batch(lambda session: accept(session, leading), within=within)
    except (InProgress, StoreRefused) as problem:
        if isinstance(problem, InProgress) and not runner.waits_for_keys:
            raise  # each of them would wait for the same lock
        # Another transaction holds one of the keys, or one of the events cannot be written. Which
        # one shows when each is received alone.
        return [None] * len(events)
    rest = [event for event in leading if event.digest not in outcomes]
    if rest:
        with suppress(InProgress, StoreUnavailable):  # what was accepted stays committed
            outcomes |= await runner.run_autocommit(
                lambda session: find_duplicates(session, rest), wait=WAIT
            )
    return [
        outcomes.get(event.digest)
        if event.id in leading.ids
        else outcome_for_other(event, leading, outcomes)
        for event in events
    ]


class UniqueByKey(list["NewEvent"]):
    """One event for each key of a batch, in the order of their keys: these are written.

    A copy of one is answered from it. Two that share a body but not an id cannot both be first: the
    later one goes alone.
    """

    def __init__(self, events: Iterable[NewEvent]) -> None:
        keys: set[bytes] = set()
        for event in events:
            mine = {event.digest, event.replay or event.digest}
            if keys.isdisjoint(mine):
                keys |= mine
                self.append(event)
        # One order for every process: two batches can wait for each other, but never both ways.
        self.sort(key=lambda event: event.digest)
        self.ids = {event.id for event in self}
        self.bodies = {event.digest: event.fingerprint for event in self}


def outcome_for_other(
    event: NewEvent, leading: UniqueByKey, outcomes: Outcomes
) -> EventOutcome | None:
    """The outcome of an event that another of its key stood for; None to receive it alone."""
    outcome = outcomes.get(event.digest)
    if outcome is None:
        return None
    if leading.bodies.get(event.digest) != event.fingerprint:
        return None
    return outcome_for_copy(outcome)


def outcome_for_copy(outcome: EventOutcome) -> EventOutcome:
    """The outcome of a copy, given that of the first."""
    known = (Status.DUPLICATE, Status.CONFLICT)
    return outcome if outcome.status in known else DUPLICATE


async def accept(session: Session, events: Sequence[NewEvent]) -> Outcomes:
    """Claim and write the events that are new; return the outcomes of those and of no others."""
    if session.can_batch:
        rows = await session.rows(INBOX_ACCEPT, **batch_values(events))
        claimed = {bytes(row["digest"]) for row in rows if row["digest"] is not None}
    else:
        claimed = await accept_each(session, events)
    return {one.digest: EventOutcome(one.status) for one in events if one.digest in claimed}


async def accept_each(session: Session, events: Sequence[NewEvent]) -> set[bytes]:
    """The same as the one statement of PostgreSQL, in small ones: SQLite is not far away."""
    claimed = await claim_plain(session, [one for one in events if one.replay is None])
    claimed |= {
        one.digest for one in events if one.replay is not None and await claim_one(session, one)
    }
    new = [one for one in events if one.digest in claimed]
    await session.write_each(EVENTS_INSERT, [one.row() for one in new])
    await session.write_each(DELIVERIES_INSERT, [delivery_row(one) for one in new])
    jobs = [job_row(one.scope, one.id, job) for one in new for job in one.jobs]
    await session.write_each(JOBS_INSERT, jobs)
    return claimed


async def claim_plain(session: Session, events: Sequence[NewEvent]) -> set[bytes]:
    """Claim those with one key each; return the digests of those that were free."""
    if not events:
        return set()
    # One token for all: by it those that were made are told from copies, where not all were made.
    token = events[0].token
    each = [claim_values(one.key, Terms(token, one.ttl), one.fingerprint) for one in events]
    if await session.write_each(CLAIMS_INSERT, each) == len(each):
        return {one.digest for one in events}
    names: list[dict[str, Value]] = [{"scope": one.scope, "digest": one.digest} for one in events]
    rows = await session.rows_each(CLAIMS_READ, names, token=token)
    return {bytes(row["digest"]) for row in rows if row["mine"]}


async def claim_one(session: Session, event: NewEvent) -> bool:
    """Make the claims of one event, unless one of them is taken."""
    terms, guard = Terms(event.token, event.ttl), event.replay_key
    if guard is not None:
        if await read_claim(session, event):
            return False  # before its body is claimed: the claim of the id came with one
        values = claim_values(guard, terms, event.fingerprint)
        if not await session.rows(CLAIMS_INSERT, **values):
            return False
    values = claim_values(event.key, terms, event.fingerprint)
    return bool(await session.rows(CLAIMS_INSERT, **values))


async def find_duplicates(session: Session, events: Sequence[NewEvent]) -> Outcomes:
    """The duplicates among events that are claimed already, by their claims alone."""
    rows = await session.rows_each(
        CLAIMS_READ, [{"scope": one.scope, "digest": one.digest} for one in events], token=b""
    )
    claims = {bytes(row["digest"]): row for row in rows}
    found = ((one.digest, outcome_from_claim(claims.get(one.digest), one)) for one in events)
    return {digest: outcome for digest, outcome in found if outcome is not None}


def outcome_from_claim(row: Row | None, event: NewEvent) -> EventOutcome | None:
    """The outcome that a claim implies; None where it takes more than a look at the claim."""
    if row is None or row["held"] or row["free"]:
        return None
    if same_body(row, event):
        return DUPLICATE
    return DIFFERENT if event.signed else None


def batch_values(events: Sequence[NewEvent]) -> dict[str, Value]:
    """The few parameters of ``inbox_accept``, for many events.

    What the events have in common, which is most of what a source's events have, is sent once, as
    a row of ``kinds``. Plain text goes as JSON, bytes go end to end: a driver turns an array into
    bytes element by element, and a dozen arrays would cost more than the statement.
    """
    kinds: dict[tuple[object, ...], int] = {}
    each: list[tuple[object, ...]] = []
    fixed: list[bytes] = []
    blobs: list[bytes] = []
    start = 0
    for one in events:
        body = one.body or b""
        shared = (
            one.scope, one.source, one.type, one.flag, one.status, one.secret, one.remote, one.ttl,
            one.body_ttl,
        )  # fmt: skip
        sizes = (start, len(one.headers), len(body))
        kind = kinds.setdefault(shared, len(kinds))
        each.append((kind, one.event_id, one.event_time, *sizes))
        fixed += (one.digest, one.fingerprint, one.token)
        blobs += (one.headers, body)
        start += sizes[1] + sizes[2]
    guarded = any([one.replay is not None for one in events])
    # The jobs of all events, each with the index of its own.
    handlers: dict[tuple[str, str, int], int] = {}
    jobs = [(index, job) for index, one in enumerate(events) for job in one.jobs]
    rows = [
        (index, handlers.setdefault((job.name, job.queue, job.attempts), len(handlers)))
        for index, job in jobs
    ]
    return {
        "kinds": json.dumps(list(kinds), ensure_ascii=False),
        "each": json.dumps(each, ensure_ascii=False),
        "fixed": b"".join(fixed),
        "guards": b"".join([one.replay or NO_DIGEST for one in events]) if guarded else b"",
        "blobs": b"".join(blobs),
        "jobs": json.dumps(rows),
        "job_ids": bytes.fromhex("".join([job.id for _, job in jobs]).replace("-", "")),
        "handlers": json.dumps(list(handlers)),
    }
