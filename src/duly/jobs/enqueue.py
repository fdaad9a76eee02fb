"""Jobs as they are put into the queue, in whatever transaction is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly._kernel.ids import new_id

if TYPE_CHECKING:
    from duly._kernel.session import Value
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


def job_row(scope: str, event: str, job: EventJob) -> dict[str, Value]:
    """The parameters of the row of a job that hands an event to its handler, at once."""
    return {
        "id": job.id,
        "scope": scope,
        "name": job.name,
        "queue": job.queue,
        "event": event,
        "payload": None,
        "delay": 0,
        "priority": 0,
        "max_attempts": job.attempts,
    }
