"""Leases on messages: taken in batches, settled together, by the newest holder only.

Every statement repeats state, token and epoch in its condition, so a relay that was paused past its
lease changes no row. What it sent meanwhile carries the id that the newer one sends, too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from duly.core.failures import reason_record
from duly.core.retry import RESCUE_BACKOFF
from duly.ledger.lease import Lease
from duly.outbox.statements import (
    OUTBOX_BURY,
    OUTBOX_DESTINATIONS,
    OUTBOX_NEXT,
    OUTBOX_REMOVE,
    OUTBOX_RESCUE,
    OUTBOX_RETURN,
    OUTBOX_SENT,
    OUTBOX_STAGE,
    OUTBOX_TAKE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.core.retry import Backoff
    from duly.core.session import Row, Session, Value
    from duly.outbox.outcome import MessageOutcome

# Enough to keep up with any burst of messages that come due together; each is one small update.
STAGED = 1000
# Small enough that the statement holds its locks for a moment.
RESCUED_AT_ONCE = 100
# A message is lost with all that its relay was sending, so more often than a job by no fault of
# its own; and still, one that kills its relay ends.
MOST_RESCUES = 20
LOST_RELAY = (
    "the lease ran out: the relay crashed, was stopped, or stalled while it had this message. It "
    "may have been sent; each further attempt carries the same id"
)
LOST_RELAY_RECORD = reason_record(LOST_RELAY, 0, "duly.errors.LeaseLost")


class LeasedMessage(NamedTuple):
    """A message that this process may send, and its lease."""

    lease: Lease
    scope: str
    destination: str
    request: bytes
    body: bytes | None
    signer: str | None
    attempts: int
    rescues: int
    max_attempts: int
    created_at: int
    run_at: int
    # When it was leased, by the clock of the database.
    taken_at: int
    # When it could first be sent: run_at moves on with every retry.
    due_at: int = 0

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.lease.id


class DestinationDemand(NamedTuple):
    """How many messages of a destination a relay can send, and where its last batch ended."""

    destination: str
    room: int
    since: int | None = None
    last: str | None = None

    def values(self) -> dict[str, Value]:
        """The parameters of one of many, as texts."""
        return {
            "destination": self.destination,
            "room": str(self.room),
            "since": "" if self.since is None else str(self.since),
            "last": self.last or "",
        }


async def stage_due(session: Session) -> int:
    """Move messages whose time has come to where relays look."""
    return len(await session.rows(OUTBOX_STAGE, limit=STAGED))


async def next_destinations(
    session: Session, after: str, skipped: Iterable[str], limit: int
) -> list[str]:
    """The next destinations that have something to send, from one of them on."""
    rows = await session.rows(
        OUTBOX_DESTINATIONS, after=after, skipped=json.dumps(sorted(skipped)), limit=limit
    )
    return [row["destination"] for row in rows]


async def take(
    session: Session, wants: Sequence[DestinationDemand], lease: int
) -> list[LeasedMessage]:
    """Lease what there is of what a relay asks for, the oldest of each destination first."""
    each = [want.values() for want in wants]
    if session.can_batch:
        rows = list(await session.rows_each(OUTBOX_TAKE, each, lease=lease))
    else:
        rows = [row for one in each for row in await session.rows(OUTBOX_TAKE, **one, lease=lease)]
    # An UPDATE gives its rows back in any order.
    rows.sort(key=lambda row: (row["run_at"], row["id"]))
    return [leased_from(row) for row in rows]


def leased_from(row: Row) -> LeasedMessage:
    """A leased message from its row."""
    lease = Lease(row["id"], bytes(row["token"]), row["epoch"])
    values = {name: row[name] for name in LeasedMessage._fields[1:]}
    if values["request"] is not None:
        values["request"] = bytes(values["request"])
    if values["body"] is not None:
        values["body"] = bytes(values["body"])
    return LeasedMessage(lease, **values)


class MessageSettlement(NamedTuple):
    """The end of one lease, to be written."""

    lease: Lease
    ended: MessageOutcome
    ran: int = 0
    # Which attempt it was, for the record of an end that the database refuses.
    attempt: int = 1


async def settle(session: Session, each: Sequence[MessageSettlement]) -> set[str]:
    """End many leases; return the ids of those that were still held."""
    held = await settle_sent(session, [one for one in each if one.ended.kind == "sent"])
    dead = [
        {**one.lease.fence_texts(), **failure_texts(one)}
        for one in each
        if one.ended.kind == "dead"
    ]
    again = [
        {**one.lease.fence_texts(), "delay": str(one.ended.delay), **failure_texts(one)}
        for one in each
        if one.ended.kind == "again"
    ]
    held |= {row["id"] for row in await session.rows_each(OUTBOX_BURY, dead)}
    held |= {row["id"] for row in await session.rows_each(OUTBOX_RETURN, again)}
    return held


async def settle_sent(session: Session, each: Sequence[MessageSettlement]) -> set[str]:
    """Remove sent messages from the table; return the ids still held."""
    rows = await session.rows_each(
        OUTBOX_SENT, [{**one.lease.fence_texts(), "ran": str(one.ran)} for one in each]
    )
    held = {row["id"] for row in rows}
    await remove_settled(session, held)
    return held


async def remove_settled(session: Session, messages: Iterable[str]) -> None:
    """Delete settled rows, where the database needs a second statement for it."""
    if not session.can_move_rows:
        await session.rows_each(OUTBOX_REMOVE, [{"id": one} for one in sorted(messages)])


def failure_texts(one: MessageSettlement) -> dict[str, Value]:
    """What is counted and recorded of a failure; an empty error keeps the one before."""
    error = "" if one.ended.error is None else one.ended.error.decode()
    counts = {"burnt": str(one.ended.attempts_used), "rescued": str(one.ended.rescued)}
    return {**counts, "error": error}


async def rescue(session: Session, backoff: Backoff = RESCUE_BACKOFF) -> Sequence[Row]:
    """Take back leases that ran out; return each message with its new state."""
    return await session.rows(
        OUTBOX_RESCUE,
        limit=RESCUED_AT_ONCE,
        most=MOST_RESCUES,
        waits=json.dumps([backoff.delay(n + 1, 1.0) for n in range(MOST_RESCUES)]),
        error=LOST_RELAY_RECORD,
    )


class OutboxOutlook(NamedTuple):
    """Whether something can be sent now, whether a lease is lost, and when there is more to do."""

    due: bool
    lost: bool
    next_in: int | None


async def peek_outbox(session: Session) -> OutboxOutlook:
    """Look at the outbox without leasing anything."""
    [row] = await session.rows(OUTBOX_NEXT)
    return OutboxOutlook(bool(row["due"]), bool(row["lost"]), row["next_in"])
