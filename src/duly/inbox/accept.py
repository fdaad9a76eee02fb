"""The receiving transaction: claim, event, arrival and jobs, all of them or none.

Many events are received at once by one statement (PostgreSQL) or one transaction (SQLite). That
covers whatever nobody had claimed. An event that is known is then told from its claim, and
whatever is neither, because it conflicts, its claim has expired or somebody holds it, is received
alone: step by step, in a transaction of its own, so that it cannot delay or fail its neighbours.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from duly.core.answers import Duplicate, First
from duly.core.defaults import WAIT
from duly.core.errors import InProgress, StoreRefused, StoreUnavailable
from duly.core.states import ClaimState
from duly.inbox.batch_params import batch_values
from duly.inbox.new_event import EventOutcome, Flag, Status, audit_key
from duly.inbox.statements import (
    DELIVERIES_INSERT,
    EVENTS_CONFLICTS,
    EVENTS_INSERT,
    INBOX_ACCEPT,
)
from duly.jobs.enqueue import job_row
from duly.jobs.statements import JOBS_INSERT, JOBS_OF_EVENT
from duly.ledger.claims import Terms, claim, claim_values, key_values, release, terms_values
from duly.ledger.statements import CLAIMS_INSERT, CLAIMS_READ

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.core.answers import Answer
    from duly.core.keys import Key
    from duly.core.session import Row, Runner, Session, Value
    from duly.inbox.new_event import NewEvent

DUPLICATE = EventOutcome(Status.DUPLICATE)
DIFFERENT = EventOutcome(Status.DUPLICATE, body_differs=True)
CONFLICT = EventOutcome(Status.CONFLICT)
# How many ids one body is recorded under; the rest is counted.
CONFLICTS_FOR_BODY = 50


async def receive_many(
    runner: Runner, arrivals: Sequence[NewEvent], *, within: float | None = None
) -> list[EventOutcome | None]:
    """Receive many at once; None stands for those that must be received alone.

    Raises `StoreUnavailable` where nobody knows how it ended: then nothing may be acknowledged.
    """
    leading = UniqueByKey(arrivals)
    try:
        outcomes = await runner.run_batch(lambda session: accept(session, leading), within=within)
    except (InProgress, StoreRefused) as problem:
        if isinstance(problem, InProgress) and not runner.waits_for_keys:
            raise  # each of them would wait for the same lock
        # Somebody else is at work on one of the keys, or one of them cannot be written. Whose
        # fault it is shows when each is received alone.
        return [None] * len(arrivals)
    rest = [arrival for arrival in leading if arrival.digest not in outcomes]
    if rest:
        with suppress(
            InProgress, StoreUnavailable
        ):  # what was accepted is committed, whatever comes now
            outcomes |= await runner.run_autocommit(
                lambda session: find_duplicates(session, rest), wait=WAIT
            )
    return [outcome_for(arrival, leading, outcomes) for arrival in arrivals]


Outcomes = dict[bytes, EventOutcome]


class UniqueByKey(list["NewEvent"]):
    """One arrival for each key of a batch, in the order of their keys: these are written.

    A copy of one is told from it. Two that share a body but not an id cannot both be first: the
    later one goes alone.
    """

    def __init__(self, arrivals: Iterable[NewEvent]) -> None:
        keys: set[bytes] = set()
        for arrival in arrivals:
            mine = {arrival.digest, arrival.replay or arrival.digest}
            if keys.isdisjoint(mine):
                keys |= mine
                self.append(arrival)
        # One order for everybody: two batches can then wait for each other, but never both ways.
        self.sort(key=lambda arrival: arrival.digest)
        self.ids = {arrival.id for arrival in self}
        self.bodies = {arrival.digest: arrival.fingerprint for arrival in self}


def outcome_for(arrival: NewEvent, leading: UniqueByKey, outcomes: Outcomes) -> EventOutcome | None:
    """What an arrival is told: its own outcome, or that of the copy that was written for it."""
    outcome = outcomes.get(arrival.digest)
    if arrival.id in leading.ids or outcome is None:
        return outcome
    if leading.bodies.get(arrival.digest) != arrival.fingerprint:
        return None
    return outcome_for_copy(outcome)


def outcome_for_copy(outcome: EventOutcome) -> EventOutcome:
    """What a copy is told where this became of the first of them."""
    known = (Status.DUPLICATE, Status.CONFLICT)
    return outcome if outcome.status in known else DUPLICATE


async def accept(session: Session, arrivals: Sequence[NewEvent]) -> Outcomes:
    """Claim and write whatever nobody had; the outcomes of those and of no others."""
    if session.can_batch:
        rows = await session.rows(INBOX_ACCEPT, **batch_values(arrivals))
        claimed = {bytes(row["digest"]) for row in rows if row["digest"] is not None}
    else:
        claimed = await accept_each(session, arrivals)
    return {one.digest: EventOutcome(one.status) for one in arrivals if one.digest in claimed}


async def accept_each(session: Session, arrivals: Sequence[NewEvent]) -> set[bytes]:
    """The same as the one statement of PostgreSQL, in small ones: SQLite is not far away."""
    claimed = await claim_plain(session, [one for one in arrivals if one.replay is None])
    claimed |= {
        one.digest for one in arrivals if one.replay is not None and await claim_one(session, one)
    }
    new = [one for one in arrivals if one.digest in claimed]
    await session.write_each(EVENTS_INSERT, [one.row() for one in new])
    await session.write_each(DELIVERIES_INSERT, [delivery_row(one) for one in new])
    jobs = [job_row(one.scope, one.id, job) for one in new for job in one.jobs]
    await session.write_each(JOBS_INSERT, jobs)
    return claimed


async def claim_plain(session: Session, arrivals: Sequence[NewEvent]) -> set[bytes]:
    """Claim those with one key each: one statement for all that are kept equally long."""
    claimed: set[bytes] = set()
    for ttl in {one.ttl for one in arrivals}:
        group = [one for one in arrivals if one.ttl == ttl]
        rows = await session.rows_each(
            CLAIMS_INSERT,
            [key_values(one.key, one.fingerprint) for one in group],
            **terms_values(Terms(group[0].token, ttl)),
        )
        claimed |= {bytes(row["digest"]) for row in rows}
    return claimed


async def claim_one(session: Session, arrival: NewEvent) -> bool:
    """Make the claims of one event, where nobody has them."""
    terms, guard = Terms(arrival.token, arrival.ttl), arrival.replay_key
    if guard is not None:
        if await read_claim(session, arrival):
            return False  # before its body is claimed: whoever knows the id has done so
        values = claim_values(guard, terms, arrival.fingerprint)
        if not await session.rows(CLAIMS_INSERT, **values):
            return False
    values = claim_values(arrival.key, terms, arrival.fingerprint)
    return bool(await session.rows(CLAIMS_INSERT, **values))


async def write_event(session: Session, arrival: NewEvent) -> None:
    """The event, its arrival and its jobs; the claim is made already."""
    await session.rows(EVENTS_INSERT, **arrival.row())
    await session.rows(DELIVERIES_INSERT, **delivery_row(arrival))
    for job in arrival.jobs:
        await session.rows(JOBS_INSERT, **job_row(arrival.scope, arrival.id, job))


def delivery_row(arrival: NewEvent) -> dict[str, Value]:
    """The parameters of the row about the arrival itself."""
    return {
        "event": arrival.id,
        "outcome": arrival.status.value,
        "secret": arrival.secret,
        "remote": arrival.remote,
    }


async def find_duplicates(session: Session, arrivals: Sequence[NewEvent]) -> Outcomes:
    """The duplicates among those that somebody had claimed; told from their claims alone."""
    rows = await session.rows_each(
        CLAIMS_READ, [{"scope": one.scope, "digest": one.digest} for one in arrivals], token=b""
    )
    claims = {bytes(row["digest"]): row for row in rows}
    found = ((one.digest, outcome_from_claim(claims.get(one.digest), one)) for one in arrivals)
    return {digest: outcome for digest, outcome in found if outcome is not None}


def outcome_from_claim(row: Row | None, arrival: NewEvent) -> EventOutcome | None:
    """What a claim says of an arrival; None where it takes more than a look at the claim."""
    if row is None or row["held"] or row["free"]:
        return None
    if same_body(row, arrival):
        return DUPLICATE
    return DIFFERENT if arrival.signed else None


def same_body(row: Row, arrival: NewEvent) -> bool:
    """Whether the claim was made with this body, as far as it says."""
    before = row["fingerprint"]
    return before is None or bytes(before) == arrival.fingerprint


async def read_claim(session: Session, arrival: NewEvent) -> Row | None:
    """The claim of the event as it stands."""
    rows = await session.rows(
        CLAIMS_READ, scope=arrival.scope, digest=arrival.digest, token=arrival.token
    )
    return rows[0] if rows else None


async def receive_alone(session: Session, arrival: NewEvent) -> EventOutcome:
    """Receive one event step by step in the open transaction, waiting for whoever has its key."""
    terms = Terms(arrival.token, arrival.ttl)
    guard = arrival.replay_key
    seen = None
    if guard is not None:
        seen = await claim(session, guard, terms, fingerprint=arrival.fingerprint)
    at_work = guard is not None and await has_live_jobs(session, guard, seen)
    if at_work or isinstance(seen, Duplicate):
        return await receive_known_body(session, arrival, terms, at_work=at_work)
    answer = await claim(session, arrival.key, terms, fingerprint=arrival.fingerprint)
    if isinstance(answer, First):
        if await has_live_jobs(session, arrival.key, answer):
            return DUPLICATE
        await write_event(session, arrival)
        return EventOutcome(arrival.status)
    if guard is not None:
        await release(session, guard, arrival.token, ClaimState.DONE)
    if not answer.body_differs:
        return DUPLICATE
    return (
        DIFFERENT
        if arrival.signed
        else await record_conflict(session, arrival, Flag.CONFLICT, terms)
    )


async def has_live_jobs(session: Session, key: Key, answer: Answer | None) -> bool:
    """Whether a claim whose time was over, and that was just taken anew, has jobs all the same."""
    if not isinstance(answer, First) or answer.epoch == 1:
        return False
    return bool(await session.rows(JOBS_OF_EVENT, scope=key.scope, digest=key.digest))


async def receive_known_body(
    session: Session, arrival: NewEvent, terms: Terms, *, at_work: bool
) -> EventOutcome:
    """A known body: a duplicate under the id it came with, a conflict under any other.

    An id that is known with this very body is the same event, even if its own claim has run out:
    the one on its body has not.
    """
    row = await read_claim(session, arrival)
    if row is not None and not row["held"]:
        if same_body(row, arrival):
            return DUPLICATE
        if at_work or not row["free"]:
            return await record_conflict(session, arrival, Flag.CONFLICT, terms)
    return await record_conflict(session, arrival, Flag.REPLAYED_BODY, terms)


async def record_conflict(
    session: Session, arrival: NewEvent, flag: Flag, terms: Terms
) -> EventOutcome:
    """Store what will not be processed, for a person to look at. It claims no event.

    Each id is recorded once for a body, a bounded number of ids, and the body with the first of
    them: whoever sends it again and again under new ids fills no disk with it.
    """
    if await has_enough_conflicts(session, arrival):
        return CONFLICT
    recorded = await claim(session, audit_key(arrival, arrival.digest), terms)
    if isinstance(recorded, First):
        kept = await claim(session, audit_key(arrival), terms)
        body = arrival.body if isinstance(kept, First) else None
        await write_event(
            session, arrival._replace(flag=flag, status=Status.CONFLICT, jobs=(), body=body)
        )
    return CONFLICT


async def has_enough_conflicts(session: Session, arrival: NewEvent) -> bool:
    """Whether this body was recorded under so many ids that more of them tell nothing."""
    if arrival.replay is None:
        return False
    rows = await session.rows(
        EVENTS_CONFLICTS, scope=arrival.scope, replay=arrival.replay, most=CONFLICTS_FOR_BODY
    )
    return len(rows) >= CONFLICTS_FOR_BODY
