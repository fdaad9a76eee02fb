"""Enqueueing jobs in the open transaction.

The key of an enqueue is a claim whose token is the id of the job it led to: a second caller reads
the id there. Nothing of it can fail the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core.exports import export_type
from duly.core.host import HOST
from duly.jobs.statements import JOBS_INSERT, KEYS_RETAKE
from duly.ledger.insert_if_new import KeyedRow, insert_if_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.host import Host
    from duly.core.keys import Key
    from duly.core.session import Session, Value
    from duly.jobs.handlers import Handler


class EventJob(NamedTuple):
    """A job that hands one event to one handler."""

    id: str
    name: str
    queue: str
    attempts: int


class NewJob(NamedTuple):
    """A plain job, chosen before the first statement. Times are in microseconds."""

    id: str
    name: str
    queue: str
    payload: bytes
    delay: int
    at: int | None
    priority: int
    attempts: int
    key: Key | None
    window: int


@export_type
class Enqueued(NamedTuple):
    """The job that does the work: a new one, or the one that a first caller enqueued."""

    id: str
    first: bool

    @property
    def duplicate(self) -> bool:
        """True if the key was known, and no job was added."""
        return not self.first


def job_scope(name: str) -> str:
    """The namespace of a job's keys. A source's name has no colon, so the two never meet."""
    return f"job:{name}"


def job_for(handler: Handler, host: Host = HOST) -> EventJob:
    """A new job; its id is chosen before the first statement."""
    return EventJob(host.new_id(), handler.name, handler.queue, handler.attempts)


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
        "at": None,
        "priority": 0,
        "max_attempts": job.attempts,
    }


def shared_values(job: NewJob) -> dict[str, Value]:
    """What all jobs of one enqueue have in common."""
    return {
        "scope": job_scope(job.name),
        "name": job.name,
        "queue": job.queue,
        "delay": job.delay,
        "at": job.at,
        "priority": job.priority,
        "max_attempts": job.attempts,
    }


def plain_row(job: NewJob) -> dict[str, Value]:
    """The parameters of the row of a plain job."""
    return {"id": job.id, "event": None, "payload": job.payload, **shared_values(job)}


async def enqueue(session: Session, job: NewJob) -> Enqueued:
    """Enqueue one job in the open transaction, or find the one that its key led to before."""
    row, found = plain_row(job), job.id
    if job.key is None:
        await session.rows(JOBS_INSERT, **row)
    else:
        what = f"job {job.name}"
        keyed = KeyedRow(job.key, job.id, job.window, JOBS_INSERT, row, KEYS_RETAKE, what)
        found = await insert_if_new(session, keyed)
    if found == job.id:
        session.new_work.add("jobs")
    return Enqueued(found, first=found == job.id)


async def enqueue_many(session: Session, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue many jobs of one handler in the open transaction.

    Keys are claimed in one order, so that two batches never deadlock.
    """
    if not jobs:
        return []
    if any(job.key is not None for job in jobs):
        answers = {
            job.id: await enqueue(session, job)
            for job in sorted(jobs, key=lambda job: (job.key.digest if job.key else b"", job.id))
        }
        return [answers[job.id] for job in jobs]
    if session.can_batch:
        rows: list[dict[str, Value]] = [{"id": job.id, "payload": job.payload} for job in jobs]
        await session.rows_each(JOBS_INSERT, rows, **shared_values(jobs[0]))
    else:
        await session.write_each(JOBS_INSERT, [plain_row(job) for job in jobs])
    session.new_work.add("jobs")
    return [Enqueued(job.id, first=True) for job in jobs]
