"""Messages by id; and dead messages, kept until an operator replays or discards them.

A replayed message is ready again with the id and the key it had. Replay and discard repeat in their
condition that the message is dead: of several at once, one changes it and the others nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duly.core.clock import from_microseconds
from duly.core.defaults import WAIT
from duly.core.errors import UsageError
from duly.core.exports import export_type
from duly.core.failures import Failure, decode_failure
from duly.ledger.dead_filters import (
    EVERYTHING,
    checked_id,
    checked_text,
    checked_time,
    list_parameters,
)
from duly.ledger.replay import ReplayPlan, gap_of
from duly.outbox.egress import target_of
from duly.outbox.lease import remove_settled
from duly.outbox.message import SCOPE
from duly.outbox.registry import is_web
from duly.outbox.statements import (
    OUTBOX_DEAD,
    OUTBOX_DEAD_IDS,
    OUTBOX_DISCARD,
    OUTBOX_READ,
    OUTBOX_REPLAY,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.session import Row, Runner, Session, Value

TIMES = ("since", "until")


@export_type
@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A dead message.

    Args:
        id: its id, which every attempt carried as its idempotency key.
        destination: the origin of its URL, or the name of its transport.
        method: how it was to be sent.
        url: where to.
        headers: what was staged with it.
        body: the bytes.
        signer: who was to sign it.
        attempts: how many attempts ended in an error.
        rescues: how many times its relay was lost.
        max_attempts: how many errors it was allowed.
        created_at: when it was staged.
        dead_at: when it was given up.
        failure: why; None where nothing was recorded.
    """

    id: str
    destination: str
    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    signer: str | None
    attempts: int
    rescues: int
    max_attempts: int
    created_at: datetime
    dead_at: datetime
    failure: Failure | None


@export_type
@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message that was staged and has not been sent.

    Args:
        id: its id, which every attempt carries as its idempotency key.
        state: ``ready`` to be sent, ``waiting`` for its time, ``leased`` by a relay, or ``dead``.
        destination: the origin of its URL, or the name of its transport.
        method: how it is sent.
        url: where to.
        headers: what was staged with it.
        body: the bytes.
        signer: who signs it.
        attempts: how many attempts ended in an error.
        rescues: how many times its relay was lost.
        max_attempts: how many errors it is allowed.
        created_at: when it was staged.
        run_at: when it may be sent, or might have been.
        leased_until: how long a relay has it; None where none has.
        dead_at: when it was given up; None where it was not.
        failure: the last error; None where there was none.
    """

    id: str
    state: Literal["ready", "waiting", "leased", "dead"]
    destination: str
    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    signer: str | None
    attempts: int
    rescues: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    leased_until: datetime | None
    dead_at: datetime | None
    failure: Failure | None


class FinishedMessage(NamedTuple):
    """A message that has left the table, from the history."""

    id: str
    outcome: str
    destination: str
    attempts: int
    at: datetime


class MessageSelection(NamedTuple):
    """Which dead messages are meant. Times are in microseconds; None filters nothing."""

    id: str | None = None
    destination: str | None = None
    since: int | None = None
    until: int | None = None

    def values(self) -> dict[str, Value]:
        """The parameters of a statement."""
        return self._asdict()

    def with_until(self, until: int) -> MessageSelection:
        """The selection with another ``until``."""
        return self._replace(until=until)


def message_selection(
    message_id: object, *, destination: object = None, since: object = None, until: object = None
) -> MessageSelection:
    """Check an id or filters."""
    filters = {"destination": destination, "since": since, "until": until}
    given = {name: value for name, value in filters.items() if value is not None}
    if message_id is not None and given:
        raise UsageError(
            "give the id of one message, or ", *list_parameters(*given), ", and not both"
        )
    checked: dict[str, Any] = {
        name: checked_time(name, value) if name in TIMES else checked_destination(value)
        for name, value in given.items()
    }
    return MessageSelection(
        None if message_id is None else checked_id(message_id, "message"), **checked
    )


def checked_destination(value: object) -> str:
    """The destination of a filter, which may be the address of a message."""
    if isinstance(value, str) and is_web(value):
        return target_of(value).origin
    return checked_text("destination", value).partition(":")[0]


def plan_of(
    which: MessageSelection, rate: object, *, dry_run: object, everything: object
) -> ReplayPlan:
    """Check the arguments of a replay; ``everything`` must be said."""
    if not isinstance(dry_run, bool) or not isinstance(everything, bool):
        raise UsageError("dry_run and all must be True or False")
    if which == MessageSelection() and not everything:
        raise UsageError(
            "which dead messages? Give the id of one, or ",
            *list_parameters("destination", "since", "until"),
            "; or ",
            EVERYTHING,
            " for every one of them",
        )
    if which != MessageSelection() and everything:
        raise UsageError(
            EVERYTHING, " means every dead message: leave out the id and the filters, or it"
        )
    return ReplayPlan(OUTBOX_DEAD_IDS, OUTBOX_REPLAY, which, gap_of(rate), dry_run)


async def list_dead(runner: Runner, which: MessageSelection, limit: int) -> list[DeadMessage]:
    """Dead messages, the latest first."""

    async def look(session: Session) -> list[DeadMessage]:
        rows = await session.rows(OUTBOX_DEAD, **which.values(), limit=limit)
        return [letter_from(row) for row in rows]

    return await runner.run_autocommit(look, wait=WAIT)


def letter_from(row: Row) -> DeadMessage:
    """A dead message from its row."""
    return DeadMessage(**message_fields(row), dead_at=from_microseconds(row["dead_at"]))


def message_fields(row: Row) -> dict[str, Any]:
    """The fields that every message in the table has."""
    request, body = json.loads(bytes(row["request"])), row["body"]
    return {
        "id": row["id"],
        "destination": row["destination"],
        "method": request["method"],
        "url": request["url"],
        "headers": dict(request["headers"]),
        "body": None if body is None else bytes(body),
        "signer": row["signer"],
        "attempts": row["attempts"],
        "rescues": row["rescues"],
        "max_attempts": row["max_attempts"],
        "created_at": from_microseconds(row["created_at"]),
        "failure": decode_failure(row["last_error"]),
    }


async def find_message(runner: Runner, message: str) -> OutboxMessage | None:
    """A message that is in the table."""
    known = await look_up(runner, message)
    return known if isinstance(known, OutboxMessage) else None


async def look_up(runner: Runner, message: str) -> OutboxMessage | FinishedMessage | None:
    """A message, or what became of it; None where nothing is known of it."""

    async def look(session: Session) -> OutboxMessage | FinishedMessage | None:
        rows = await session.rows(OUTBOX_READ, id=message, scope=SCOPE)
        return message_from(rows[0]) if rows else None

    return await runner.run_autocommit(look, wait=WAIT)


def message_from(row: Row) -> OutboxMessage | FinishedMessage:
    """A message in any state from its row."""
    ended = optional_time(row["ended"])
    if ended is not None:
        return FinishedMessage(row["id"], row["state"], row["destination"], row["attempts"], ended)
    return OutboxMessage(
        **message_fields(row),
        state=row["state"],
        run_at=from_microseconds(row["run_at"]),
        leased_until=optional_time(row["lease_until"]),
        dead_at=optional_time(row["dead_at"]),
    )


def optional_time(microseconds: int | None) -> datetime | None:
    """A time that a row may have."""
    return None if microseconds is None else from_microseconds(microseconds)


async def discard_dead(runner: Runner, message: str) -> bool:
    """Delete a dead message and note that in the history; False if there is no such one."""

    async def delete(session: Session) -> bool:
        gone = await session.rows(OUTBOX_DISCARD, id=message)
        await remove_settled(session, [row["id"] for row in gone])
        return bool(gone)

    # A second run after a lost reply could not tell whether the first had discarded it.
    return await runner.run(delete, wait=WAIT, after_loss=False)
