"""Group commit of new events: claim, event and jobs, all of them or none.

One statement (PostgreSQL) or one transaction (SQLite) takes every event of a batch that was never
claimed. A copy of a known event is answered from its claim. The rest, because it conflicts, its
claim has expired or another transaction holds it, is left to `accept_one`: step by step, in a
transaction of its own, so that it cannot delay or fail its neighbours.
"""

from __future__ import annotations

import json
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import InProgress, StoreRefused, StoreUnavailable
from duly.inbox.accept_one import DIFFERENT, DUPLICATE, read_claim, same_body
from duly.inbox.new_event import EventOutcome, Status
from duly.inbox.statements import EVENTS_INSERT, INBOX_ACCEPT
from duly.jobs.enqueue import job_row
from duly.jobs.statements import JOBS_INSERT
from duly.ledger.claims import Terms, claim_values
from duly.ledger.statements import CLAIMS_INSERT, CLAIMS_READ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.session import Column, Row, Runner, Session, Value
    from duly.inbox.new_event import NewEvent

Outcomes = dict[bytes, EventOutcome]
BY_DIGEST = attrgetter("digest")
NEW = {status: EventOutcome(status) for status in Status}


async def receive_many(
    runner: Runner, events: Sequence[NewEvent], *, within: float | None = None
) -> list[EventOutcome | None]:
    """Receive many at once; None stands for those that must be received alone.

    Raises `StoreUnavailable` where the outcome is unknown: then nothing may be acknowledged.
    """
    leading = unique_by_key(events)
    try:
        outcomes = await runner.run_batch(lambda session: accept(session, leading), within=within)
    except (InProgress, StoreRefused) as problem:
        if isinstance(problem, InProgress) and not runner.waits_for_keys:
            raise  # each of them would wait for the same lock
        # Another transaction holds one of the keys, or one of the events cannot be written. Which
        # one shows when each is received alone.
        return [None] * len(events)
    if len(outcomes) < len(leading):
        rest = [event for event in leading if event.digest not in outcomes]
        with suppress(InProgress, StoreUnavailable):  # what was accepted stays committed
            outcomes |= await runner.run_autocommit(
                lambda session: find_duplicates(session, rest), wait=WAIT
            )
    if len(leading) == len(events):
        return [outcomes.get(event.digest) for event in events]
    firsts = {event.digest: event for event in leading}
    return [
        outcomes.get(event.digest)
        if (first := firsts.get(event.digest)) is event
        else outcome_for_other(event, first, outcomes)
        for event in events
    ]


def unique_by_key(events: Sequence[NewEvent]) -> list[NewEvent]:
    """One event for each key of a batch, in the order of their keys: these are written.

    A copy of one is answered from it. Two that share a body but not an id cannot both be first: the
    later one goes alone.
    """
    keys: set[bytes] = set()
    leading = []
    for event in events:
        digest, replay = event.digest, event.replay
        if digest in keys or (replay is not None and replay in keys):
            continue
        keys.add(digest)
        if replay is not None:
            keys.add(replay)
        leading.append(event)
    # One order for every process: two batches can wait for each other, but never both ways.
    leading.sort(key=BY_DIGEST)
    return leading


def outcome_for_other(
    event: NewEvent, first: NewEvent | None, outcomes: Outcomes
) -> EventOutcome | None:
    """The outcome of an event that another of its key stood for; None to receive it alone."""
    outcome = outcomes.get(event.digest)
    if outcome is None or first is None:
        return None
    if first.fingerprint != event.fingerprint:
        return None
    return outcome_for_copy(outcome)


def outcome_for_copy(outcome: EventOutcome) -> EventOutcome:
    """The outcome of a copy, given that of the first."""
    known = (Status.DUPLICATE, Status.CONFLICT)
    return outcome if outcome.status in known else DUPLICATE


async def accept(session: Session, events: Sequence[NewEvent]) -> Outcomes:
    """Claim and write the events that are new; return the outcomes of those and of no others."""
    if session.can_batch:
        [row] = await session.rows(INBOX_ACCEPT, **batch_values(events))
        digests = row["digests"] or b""
        claimed = {digests[start : start + 32] for start in range(0, len(digests), 32)}
    else:
        claimed = await accept_each(session, events)
    return {one.digest: NEW[one.status] for one in events if one.digest in claimed}


async def accept_each(session: Session, events: Sequence[NewEvent]) -> set[bytes]:
    """The same as the one statement of PostgreSQL, in small ones: SQLite is not far away."""
    claimed = await claim_plain(session, [one for one in events if one.replay is None])
    claimed |= {
        one.digest for one in events if one.replay is not None and await claim_one(session, one)
    }
    new = [one for one in events if one.digest in claimed]
    await session.write_each(EVENTS_INSERT, [one.row() for one in new])
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


def batch_values(events: Sequence[NewEvent]) -> dict[str, Value | Column]:
    """The few parameters of ``inbox_accept``, for many events.

    What the events have in common, which is most of what a source's events have, is sent once, as
    a row of ``kinds``. Bytes go end to end, and small numbers as one array: a parameter for each
    column costs a batch of one more than it saves a batch of many.
    """
    kinds: dict[tuple[object, ...], int] = {}
    last: tuple[object, ...] = ()
    kind = 0
    numbers: list[int] = []
    fixed: list[bytes] = []
    blobs: list[bytes] = []
    start = 1
    # The jobs of all events, each with the place of its own.
    handlers: dict[tuple[str, str, int], int] = {}
    jobs: list[int] = []
    ids: list[str] = []
    for place, one in enumerate(events, start=1):
        shared = (
            one.scope, one.source, one.type, one.flag, one.status, one.secret, one.remote, one.ttl,
            one.body_ttl,
        )  # fmt: skip
        if shared != last:  # to compare them costs less than to hash them
            kind, last = kinds.setdefault(shared, len(kinds) + 1), shared
        headers, body = one.headers, one.body or b""
        numbers += (kind, start, len(headers), len(body))
        fixed += (one.digest, one.fingerprint, one.token)
        blobs += (headers, body)
        start += len(headers) + len(body)
        for job_id, name, queue, attempts in one.jobs:
            how = (name, queue, attempts)
            jobs += (place, handlers.setdefault(how, len(handlers) + 1))
            ids.append(job_id)
    replays = [one.replay for one in events]
    return {
        "kinds": json.dumps(list(kinds), ensure_ascii=False),
        "event_id": [one.event_id for one in events],
        "event_time": [one.event_time for one in events],
        "replay": replays if any(replays) else [],
        "numbers": numbers,
        "fixed": b"".join(fixed),
        "blobs": b"".join(blobs),
        "handlers": json.dumps(list(handlers), ensure_ascii=False),
        "jobs": jobs,
        "job_ids": bytes.fromhex("".join(ids).replace("-", "")),
    }
