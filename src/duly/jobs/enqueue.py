"""Putting a job into the queue, in whatever transaction is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly._kernel.ids import new_id
from duly.jobs.statements import JOBS_INSERT

if TYPE_CHECKING:
    from duly._kernel.session import Session
    from duly.jobs.handlers import Handler


class EventJob(NamedTuple):
    """A job that hands one event to one handler."""

    id: str
    name: str
    queue: str
    attempts: int


def job_for(handler: Handler) -> EventJob:
    """A new job; its id is chosen before the first statement."""
    return EventJob(new_id(), handler.name, handler.queue, handler.attempts)


async def enqueue_for_event(session: Session, scope: str, event: str, job: EventJob) -> None:
    """Enqueue one job of an event, to be run at once."""
    await session.rows(
        JOBS_INSERT,
        id=job.id,
        scope=scope,
        name=job.name,
        queue=job.queue,
        event=event,
        payload=None,
        delay=0,
        priority=0,
        max_attempts=job.attempts,
    )
