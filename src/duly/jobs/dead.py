"""Dead jobs, kept with their last error until an operator replays or discards them.

Replay and discard repeat in their condition that the job is dead: of several at once, one changes
the job and the others nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.clock import from_microseconds
from duly.core.defaults import WAIT
from duly.core.errors import UsageError
from duly.core.exports import export_type
from duly.core.failures import Failure, decode_failure
from duly.core.redaction import REACH, clean_text, redact
from duly.jobs.resolve import UnknownEffect, digest_of, unknown_effects
from duly.jobs.statements import (
    HISTORY_DISCARDED,
    JOBS_DEAD,
    JOBS_DEAD_EVENT,
    JOBS_DEAD_IDS,
    JOBS_DISCARD,
    JOBS_LOCK,
    JOBS_REPLAY,
)
from duly.ledger.dead_filters import (
    EVERYTHING,
    checked_id,
    checked_text,
    checked_time,
    list_parameters,
)
from duly.ledger.replay import ReplayPlan, gap_of

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.session import Row, Runner, Session, Value

TIMES = ("since", "until")
# How much of an event's body is shown.
SHOWN_BYTES = 16 * 1024


@export_type
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead job.

    Args:
        id: the id of the job.
        name: of its handler.
        queue: where it waited, and waits again once it is replayed.
        source: whose event it handled; None for a plain job, like the two that follow.
        event_id: the id that the sender gave the event.
        type: the type of the event.
        payload: what was enqueued; None for a job that handled an event.
        attempts: how many runs ended in an error.
        rescues: how many times its worker was lost.
        max_attempts: how many errors it was allowed.
        created_at: when it was enqueued.
        dead_at: when it was given up.
        failure: why; None where nothing was recorded.
        unknown: its effects whose outcome is unknown; settle them with ``app.jobs.resolve``.
    """

    id: str
    name: str
    queue: str
    source: str | None
    event_id: str | None
    type: str | None
    payload: Any = field(repr=False)
    attempts: int
    rescues: int
    max_attempts: int
    created_at: datetime
    dead_at: datetime
    failure: Failure | None
    unknown: tuple[UnknownEffect, ...] = ()


class EventOfDead(NamedTuple):
    """The event of a dead job, for an operator to read.

    ``body`` is its beginning without what looks like a secret, and None where it was pruned;
    ``size`` is that of the whole body, in bytes.
    """

    id: str
    type: str | None
    source: str
    received_at: datetime
    time: datetime | None
    size: int | None
    body: str | None

    @property
    def is_cut(self) -> bool:
        """True where the body is longer than what is shown of it."""
        return self.size is not None and self.size > SHOWN_BYTES


class JobSelection(NamedTuple):
    """Which dead jobs are meant. Times are in microseconds; None filters nothing."""

    id: str | None = None
    source: str | None = None
    type: str | None = None
    name: str | None = None
    since: int | None = None
    until: int | None = None

    def values(self) -> dict[str, Value]:
        """The parameters of a statement."""
        return self._asdict()

    def with_until(self, until: int) -> JobSelection:
        """The selection with another ``until``."""
        return self._replace(until=until)


def job_selection(
    job_id: object,
    *,
    source: object = None,
    type: object = None,
    name: object = None,
    since: object = None,
    until: object = None,
) -> JobSelection:
    """Check an id or filters."""
    filters = {"source": source, "type": type, "name": name, "since": since, "until": until}
    given = {name: value for name, value in filters.items() if value is not None}
    if job_id is not None and given:
        raise UsageError("give the id of one job, or ", *list_parameters(*given), ", and not both")
    checked: dict[str, Any] = {
        name: checked_time(name, value) if name in TIMES else checked_text(name, value)
        for name, value in given.items()
    }
    return JobSelection(None if job_id is None else checked_id(job_id), **checked)


async def list_dead(runner: Runner, which: JobSelection, limit: int) -> list[DeadLetter]:
    """Dead jobs, the latest first."""

    async def look(session: Session) -> list[DeadLetter]:
        rows = await session.rows(JOBS_DEAD, **which.values(), limit=limit)
        unknown = await unknown_effects(session, rows)
        return [letter_from(row, unknown.get(digest_of(row), ())) for row in rows]

    return await runner.run_autocommit(look, wait=WAIT)


def letter_from(row: Row, unknown: tuple[UnknownEffect, ...]) -> DeadLetter:
    """A dead job from its row."""
    payload = row["payload"]
    return DeadLetter(
        id=row["id"],
        name=row["name"],
        queue=row["queue"],
        source=row["source"],
        event_id=row["event_id"],
        type=row["type"],
        payload=None if payload is None else json.loads(bytes(payload)),
        attempts=row["attempts"],
        rescues=row["rescues"],
        max_attempts=row["max_attempts"],
        created_at=from_microseconds(row["created_at"]),
        dead_at=from_microseconds(row["dead_at"]),
        failure=decode_failure(row["last_error"]),
        unknown=unknown,
    )


async def read_event(runner: Runner, job: str) -> EventOfDead | None:
    """The event of a dead job; None where the job is about none."""

    async def look(session: Session) -> EventOfDead | None:
        # A secret that begins in the shown part is found by what follows it.
        rows = await session.rows(JOBS_DEAD_EVENT, id=job, most=SHOWN_BYTES + REACH)
        return event_from(rows[0]) if rows else None

    return await runner.run_autocommit(look, wait=WAIT)


def event_from(row: Row) -> EventOfDead:
    """The event of a dead job from its row."""
    time, body = row["event_time"], row["body"]
    return EventOfDead(
        id=row["event_id"],
        type=row["type"],
        source=row["source"],
        received_at=from_microseconds(row["received_at"]),
        time=None if time is None else from_microseconds(time),
        size=row["size"],
        body=None if body is None else body_text(bytes(body)),
    )


def body_text(body: bytes) -> str:
    """The beginning of a body as text, with what looks like a secret redacted."""
    shown = body[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    rest = body[SHOWN_BYTES:].decode("utf-8", "backslashreplace")
    return redact(clean_text(shown + rest), (), 0, len(clean_text(shown)))


async def discard_dead(runner: Runner, job: str) -> bool:
    """Delete a dead job and note that in the history; False if there is no such dead job."""

    async def delete(session: Session) -> bool:
        # Locked first: of two discards at once, the second finds no row.
        found = await session.rows(JOBS_LOCK, id=job)
        if not found or found[0]["state"] != "dead":
            return False
        await session.rows(HISTORY_DISCARDED, id=job)
        await session.rows(JOBS_DISCARD, id=job)
        return True

    # A second run after a lost reply could not tell whether the first had discarded it.
    return await runner.run(delete, wait=WAIT, after_loss=False)


def plan_of(
    which: JobSelection, rate: object, *, dry_run: object, everything: object
) -> ReplayPlan:
    """Check the arguments of a replay; ``everything`` must be said."""
    if not isinstance(dry_run, bool) or not isinstance(everything, bool):
        raise UsageError("dry_run and all must be True or False")
    if which == JobSelection() and not everything:
        raise UsageError(
            "which dead letters? Give the id of one job, or ",
            *list_parameters("source", "type", "name", "since", "until"),
            "; or ",
            EVERYTHING,
            " for every one of them",
        )
    if which != JobSelection() and everything:
        raise UsageError(
            EVERYTHING, " means every dead letter: leave out the id and the filters, or it"
        )
    return ReplayPlan(JOBS_DEAD_IDS, JOBS_REPLAY, which, gap_of(rate), dry_run)
