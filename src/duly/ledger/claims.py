"""The atomic answer to "am I first?".

Concurrency has one referee, the unique index. A claim is an insert that does nothing on conflict.
If no row comes back, the key is taken, and a *next* statement reads it: the inserting one may
have waited for that row's transaction and would not see it. What was read is then either a
duplicate, a live lease (`InProgress`), the caller's own row from a run whose COMMIT reply was lost
(`First`), or free to be taken over by an update that repeats the condition. Whenever the row has
moved between two statements the whole is tried again, three times, and then called `InProgress`.

Where a look is cheap and binds nothing (`can_look_first`), the claim is read before it is inserted:
a duplicate then takes no write lock. What the look finds is committed, and answers as it would
after the insert; where it finds nothing, or a row that may be taken over, the insert decides.

Every statement is safe on its own, so one body serves a transaction and autocommit.
"""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, cast

from duly.core import json_bytes
from duly.core.answers import Answer, Duplicate, First
from duly.core.clock import from_microseconds
from duly.core.defaults import WAIT
from duly.core.errors import InProgress
from duly.core.states import ClaimState
from duly.ledger.statements import (
    CLAIMS_INSERT,
    CLAIMS_PRUNE,
    CLAIMS_READ,
    CLAIMS_RELEASE,
    CLAIMS_RETAKE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.core.keys import Key
    from duly.core.session import Row, Runner, Session, Value

ROUNDS = 3
BY_DIGEST = attrgetter("digest")


class Terms(NamedTuple):
    """How a claim is made: for how long, and under which token. Microseconds; None is for ever.

    The token is chosen before the first statement and kept over reruns: by it a rerun recognises
    its own row. A lease makes the claim ``held`` until it is marked; without one it is ``done``.
    """

    token: bytes
    ttl: int | None
    lease: int | None = None

    @property
    def state(self) -> ClaimState:
        """The state a new claim starts in."""
        return ClaimState.DONE if self.lease is None else ClaimState.HELD


async def claim(
    session: Session, key: Key, terms: Terms, *, fingerprint: bytes | None = None
) -> Answer:
    """Claim a key, or find it claimed; `InProgress` where neither can be known now."""
    if session.can_look_first and (found := await read_claim(session, key, terms)):
        known = answer_from_claim(found[0], key, fingerprint)
        if known is not None:
            return known
    values = claim_values(key, terms, fingerprint)
    for _ in range(ROUNDS):
        if (made := await insert_claim(session, values)) is not None:
            return made
        found = await read_claim(session, key, terms)
        if not found:  # pruned or rolled back between the two statements
            continue
        known = answer_from_claim(found[0], key, fingerprint)
        if known is not None:
            return known
        if taken := await session.rows(CLAIMS_RETAKE, **values):
            return first_from(taken[0])
    raise contention_error(key)


async def insert_claim(session: Session, values: dict[str, Value]) -> First | None:
    """Insert a claim; None where the key is taken."""
    if session.can_batch:
        rows = await session.rows(CLAIMS_INSERT, **values)
        return first_from(rows[0]) if rows else None
    return first_at(values["now"]) if await session.write_each(CLAIMS_INSERT, [values]) else None


async def read_claim(session: Session, key: Key, terms: Terms) -> Sequence[Row]:
    """Read a claim as it stands now; no row where there is none."""
    return await session.rows(CLAIMS_READ, scope=key.scope, digest=key.digest, token=terms.token)


async def claim_many(session: Session, keys: Sequence[Key], terms: Terms) -> list[Answer]:
    """Claim a batch in one transaction: all keys are answered, or `InProgress` and none is claimed.

    Distinct keys, always in the same order: a batch can neither wait for itself nor deadlock
    with another. Of a key that is repeated only the first mention can be first.
    """
    open_keys = {key.digest: key for key in sorted(keys, key=BY_DIGEST)}
    answers: dict[bytes, Answer] = {}
    for _ in range(ROUNDS):
        if not open_keys:
            break
        answers |= await claim_round(session, list(open_keys.values()), terms)
        open_keys = {digest: key for digest, key in open_keys.items() if digest not in answers}
    for key in open_keys.values():
        raise contention_error(key)
    return in_callers_order(keys, answers)


async def claim_round(session: Session, keys: Sequence[Key], terms: Terms) -> dict[bytes, Answer]:
    """One round of insert, read and retake over many keys; unanswered ones are left out."""
    first = await insert_many(session, keys, terms)
    if first is not None:
        return dict.fromkeys([key.digest for key in keys], first)
    answers: dict[bytes, Answer] = {}
    rest = {key.digest: key for key in keys}
    found = await session.rows_each(
        CLAIMS_READ,
        [{"scope": key.scope, "digest": key.digest} for key in rest.values()],
        token=terms.token,
    )
    for row in sorted(found, key=lambda row: bytes(row["digest"])):  # in one order, as above
        key = rest[bytes(row["digest"])]
        known = answer_from_claim(row, key, None)
        if known is None:
            taken = await session.rows(CLAIMS_RETAKE, **claim_values(key, terms, None))
            known = first_from(taken[0]) if taken else None
        if known is not None:
            answers[key.digest] = known
    return answers


async def insert_many(session: Session, keys: Sequence[Key], terms: Terms) -> First | None:
    """Insert many claims at one time; the answer that stands for each if all were free.

    Where not all were, those that were made are found by their token, like those that were not.
    """
    if session.can_batch:
        each: list[dict[str, Value]] = [
            {"digest": key.digest, "key_text": key.text} for key in keys
        ]
        shared = {"scope": keys[0].scope, **terms_values(terms)}
        [row] = await session.rows_each(CLAIMS_INSERT, each, **shared)
        return first_at(row["first_seen"]) if row["made"] == len(keys) else None
    every = [claim_values(key, terms, None) for key in keys]
    all_made = await session.write_each(CLAIMS_INSERT, every) == len(keys)
    return first_at(every[0]["now"]) if all_made else None


def in_callers_order(keys: Sequence[Key], answers: Mapping[bytes, Answer]) -> list[Answer]:
    """One answer for each mention; the second mention of a key is a duplicate of the first."""
    if len(answers) == len(keys):  # none is mentioned twice
        return [answers[key.digest] for key in keys]
    seen: set[bytes] = set()
    ordered: list[Answer] = []
    for key in keys:
        answer = answers[key.digest]
        if key.digest in seen and isinstance(answer, First):
            answer = Duplicate(first_seen=answer.first_seen)
        seen.add(key.digest)
        ordered.append(answer)
    return ordered


async def release(session: Session, key: Key, token: bytes, state: ClaimState) -> bool:
    """Give a claim back if it is still the caller's and in this state."""
    rows = await session.rows(
        CLAIMS_RELEASE, scope=key.scope, digest=key.digest, token=token, state=state.value
    )
    return bool(rows)


async def unclaim(session: Session, key: Key, terms: Terms) -> None:
    """Release a claim whose reply was lost.

    The statement that made it may still be on its way to the server. So the claim is made once
    more, by the same token: the unique index puts this one behind the other, or the other, if it
    arrives later, behind this one. Whichever it was, it is then released.
    """
    try:
        answer = await claim(session, key, terms)
    except InProgress:
        return
    if isinstance(answer, First):
        await release(session, key, terms.token, terms.state)


def answer_from_claim(row: Row, key: Key, fingerprint: bytes | None) -> Answer | None:
    """The answer of an existing row; None where it may be taken over."""
    if row["mine"]:
        return first_from(row)
    if row["free"]:
        return None
    if row["held"]:
        raise InProgress(
            f"{key.scope}/{key.text} is being worked on under a lease: try again later",
            retry_after=max(timedelta(microseconds=int(row["lease_left"])), timedelta(0)),
        )
    return duplicate_from(row, fingerprint)


def contention_error(key: Key) -> InProgress:
    """The error of a claim whose row moved at every attempt to read or take it."""
    return InProgress(
        f"{key.scope}/{key.text} was claimed and given up {ROUNDS} times while this call looked: "
        "try again"
    )


def first_from(row: Row) -> First:
    """The answer of a claim just made."""
    return First(first_seen=from_microseconds(row["first_seen"]), epoch=row["epoch"])


def first_at(now: Value) -> First:
    """The answer of a claim that was made at this time."""
    return First(from_microseconds(cast("int", now)))


def duplicate_from(row: Row, fingerprint: bytes | None) -> Duplicate:
    """The answer of a claim that another call made."""
    stored, before = row["result"], row["fingerprint"]
    return Duplicate(
        first_seen=from_microseconds(row["first_seen"]),
        result=None if stored is None else json_bytes.decode(stored),
        has_result=stored is not None,
        body_differs=None not in (before, fingerprint) and bytes(before) != fingerprint,
    )


def terms_values(terms: Terms) -> dict[str, Value]:
    """The parameters that say how a claim is made."""
    return {
        "ttl": terms.ttl,
        "state": terms.state.value,
        "token": terms.token,
        "lease": terms.lease,
    }


def claim_values(key: Key, terms: Terms, fingerprint: bytes | None) -> dict[str, Value]:
    """Everything an insert or a retake needs."""
    return {
        "scope": key.scope,
        "digest": key.digest,
        "key_text": key.text,
        "fingerprint": fingerprint,
        "ttl": terms.ttl,
        "state": terms.state.value,
        "token": terms.token,
        "lease": terms.lease,
    }


async def prune(session: Session, *, limit: int) -> int:
    """Delete up to ``limit`` expired claims and return how many went."""
    return len(await session.rows(CLAIMS_PRUNE, limit=limit))


async def prune_joined(session: Session, limit: int) -> int:
    """Prune in the caller's transaction."""
    await session.begin(None)
    return await prune(session, limit=limit)


async def prune_committed(runner: Runner, limit: int) -> int:
    """Prune and commit."""
    return await runner.run_autocommit(lambda session: prune(session, limit=limit), wait=WAIT)
