"""Dead letters: jobs that were given up, kept with their last error until a person decides.

A letter is replayed, which makes its job ready again, or discarded. Both repeat in their condition
that the job is dead, so of several who decide at once one does, and the others change nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from duly._kernel.clock import from_microseconds, to_microseconds
from duly._kernel.errors import Misuse
from duly._kernel.inputs import kind
from duly._kernel.options import WAIT
from duly.jobs.effects import step_digest
from duly.jobs.failures import Failure, read
from duly.jobs.statements import (
    EFFECTS_OF,
    HISTORY_DISCARDED,
    JOBS_DEAD,
    JOBS_DEAD_IDS,
    JOBS_DISCARD,
    JOBS_LOCK,
    JOBS_REPLAY,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly._kernel.session import Row, Runner, Session, Value

SHOWN = 100
MOST_SHOWN = 10_000
# Small enough that a chunk holds its locks for milliseconds.
CHUNK = 500
# Slower than that nobody waits for, and faster than that no database is.
SLOWEST, FASTEST = 0.001, 1_000_000
MOST_BYTES = 1000
JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
FIRST_ID = "00000000-0000-0000-0000-000000000000"
SECOND = 1_000_000


class UnknownEffect(NamedTuple):
    """An external step of a job of which nobody knows whether it happened."""

    name: str
    # The idempotency key that the step was taken with: what to look for on the other side.
    key: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that was given up.

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
        unknown: its effects of which nobody knows whether they happened; see `Duly.resolve`.
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


@dataclass(frozen=True, slots=True)
class Replayed:
    """The jobs that are ready again, the first to run first; with ``dry_run``, those that were not
    touched and would be.
    """

    ids: tuple[str, ...]
    dry_run: bool = False


class Selection(NamedTuple):
    """Which dead letters are meant. Times are in microseconds; None asks for nothing."""

    id: str | None = None
    source: str | None = None
    type: str | None = None
    name: str | None = None
    since: int | None = None
    until: int | None = None

    def values(self) -> dict[str, Value]:
        """The parameters of a statement."""
        return dict(self._asdict())


def selection(job_id: object, **filters: object) -> Selection:
    """What a caller asked for, checked."""
    given = {name: value for name, value in filters.items() if value is not None}
    if job_id is not None and given:
        raise Misuse(f"give the id of one job, or {', '.join(given)}=, and not both")
    times = {name: checked_time(name, given.pop(name)) for name in ("since", "until")
             if name in given}  # fmt: skip
    texts = {name: checked_text(name, value) for name, value in given.items()}
    return Selection(None if job_id is None else checked_id(job_id), **texts, **times)


def checked_id(job_id: object) -> str:
    """The id of a job, as the database writes it."""
    if not isinstance(job_id, str) or JOB_ID.fullmatch(job_id) is None:
        raise Misuse(
            "the id of a job must look like 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305: use the one that "
            "enqueue returned, or that is listed among the dead letters"
        )
    return job_id.lower()


def checked_text(what: str, value: object) -> str:
    """A name to look for."""
    if not isinstance(value, str):
        raise Misuse(f"{what} must be a string, not {kind(value)}")
    size = len(value.encode("utf-8", "replace"))
    if not 1 <= size <= MOST_BYTES or "\0" in value or not encodable(value):
        raise Misuse(f"{what} must be text of 1 to {MOST_BYTES:,} bytes, without NULs")
    return value


def encodable(text: str) -> bool:
    """Whether a database can be asked for it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_time(what: str, value: object) -> int:
    """A moment, in microseconds."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise Misuse(
            f"{what} must be an aware datetime: write datetime.now(UTC) - timedelta(hours=2)"
        )
    return to_microseconds(value)


def gap_of(rate: object) -> int:
    """The microseconds between two jobs, from how many may run in a second."""
    if rate is None:
        return 0
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not number or not SLOWEST <= rate <= FASTEST:  # type: ignore[operator]
        raise Misuse(f"rate must be a number of jobs per second, from {SLOWEST} to {FASTEST:,}")
    return math.ceil(SECOND / rate)  # type: ignore[operator]


async def listed(runner: Runner, which: Selection, limit: int) -> list[DeadLetter]:
    """Dead letters, the latest first."""

    async def look(session: Session) -> list[DeadLetter]:
        rows = await session.rows(JOBS_DEAD, **which.values(), limit=limit)
        unknown = await unknown_effects(session, rows)
        return [letter_from(row, unknown.get(digest_of(row), ())) for row in rows]

    return await runner.run_single(look, wait=WAIT)


async def unknown_effects(
    session: Session, rows: Sequence[Row]
) -> Mapping[bytes, tuple[UnknownEffect, ...]]:
    """What nobody knows of these jobs, by the digest that names a job's effects."""
    each: list[dict[str, Value]] = [
        {"scope": row["scope"], "digest": digest_of(row)} for row in rows
    ]
    found: dict[bytes, tuple[UnknownEffect, ...]] = {}
    for effect in await session.rows_each(EFFECTS_OF, each):
        if effect["state"] != "done":
            digest = bytes(effect["digest"])
            one = UnknownEffect(effect["name"], effect["key"])
            found[digest] = (*found.get(digest, ()), one)
    return found


def digest_of(row: Row) -> bytes:
    """What names the effects of a job: the same as when it ran."""
    return step_digest(row["scope"], row["id"], row["event_id"], row["name"])


def letter_from(row: Row, unknown: tuple[UnknownEffect, ...]) -> DeadLetter:
    """A dead letter from what the database gave back."""
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
        failure=read(row["last_error"]),
        unknown=unknown,
    )
