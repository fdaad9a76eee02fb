"""Forgetting an event on purpose, so that its sender's next delivery of it is processed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import JobsPending, Parameter, UsageError
from duly.core.exports import export_type
from duly.inbox.new_event import Flag, event_key
from duly.inbox.statements import CLAIMS_FORGET, EVENTS_FIND, EVENTS_FLAG, GUARDS_FORGET
from duly.jobs.statements import JOBS_DISCARD, JOBS_OF_EVENT

if TYPE_CHECKING:
    from duly.core.session import Row, Runner, Session


@export_type
@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten, and what it leads to."""

    event_id: str
    type: str | None
    # The handlers that will run again when the sender delivers the event again.
    handlers: tuple[str, ...]
    # How many dead jobs of the event were discarded with it.
    discarded: int
    # Whether it was parked because of its age: it is again, unless window= of its source reaches
    # back.
    too_old: bool = False


async def forget_committed(runner: Runner, scope: str, event_id: str) -> Forgotten:
    """Forget an event for an operator."""
    # A second run after a lost reply would find nothing to forget, although the first had forgotten
    # it; or forget the event once more that was received in between.
    return await runner.run(
        lambda session: forget(session, scope, event_id), wait=WAIT, after_loss=False
    )


async def forget(session: Session, scope: str, event_id: str) -> Forgotten:
    """Clear the claims of an event and discard its dead jobs, all of it or nothing."""
    await session.begin(None)
    key = event_key(scope, event_id)
    # First, because it takes the lock of the claim: a receiver of the event waits, and what
    # it had committed before is seen by the statements that follow.
    claimed = await session.rows(CLAIMS_FORGET, scope=scope, digest=key.digest)
    rows = await session.rows(EVENTS_FIND, scope=scope, digest=key.digest)
    events = [row for row in rows if row["flags"] in (Flag.NONE, Flag.IGNORED, Flag.TOO_OLD)]
    jobs = await session.rows(JOBS_OF_EVENT, scope=scope, digest=key.digest)
    refuse_at_work(jobs, scope, event_id)
    if not claimed and not events:
        raise UsageError(
            f"there is no event {event_id!r:.80} in {scope}: nothing to forget. Check its id, and ",
            Parameter("tenant"),
            " where the source has one",
        )
    for row in events:
        if row["replay"] is not None:
            guard = bytes(row["replay"])
            await session.rows(GUARDS_FORGET, scope=scope, digest=guard, event=key.digest)
        await session.rows(EVENTS_FLAG, id=row["id"], flags=Flag.FORGOTTEN.value)
    for job in jobs:
        await session.rows(JOBS_DISCARD, id=job["id"])
    latest = events[0] if events else None
    return Forgotten(
        event_id,
        None if latest is None else latest["type"],
        (),
        len(jobs),
        too_old=latest is not None and latest["flags"] == Flag.TOO_OLD,
    )


def refuse_at_work(jobs: object, scope: str, event_id: str) -> None:
    """Refuse while a job of the event is ready or leased."""
    alive: list[Row] = [job for job in jobs if job["state"] != "dead"]  # type: ignore[attr-defined]
    if alive:
        names = ", ".join(sorted({job["name"] for job in alive}))
        raise JobsPending(
            f"event {event_id!r:.80} of {scope} still has work to do ({names}): it is not "
            "forgotten. Wait until its jobs are done or dead"
        )
