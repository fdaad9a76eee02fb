"""Jobs as they are put into the queue, in whatever transaction is open.

The key of an enqueue is a claim of the ledger's whose token is the id of the job it led to: who
comes second reads the id there. Nothing of it can fail the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly._kernel.errors import Held
from duly._kernel.ids import new_id
from duly._ledger.statements import CLAIMS_INSERT
from duly.jobs.statements import JOBS_INSERT, KEYS_READ, KEYS_RETAKE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._kernel.keys import Key
    from duly._kernel.session import Session, Value
    from duly.jobs.handlers import Handler

ROUNDS = 3


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

    @property
    def token(self) -> bytes:
        """Who claims the key: this job, and no other."""
        return token_of(self.id)


class Enqueued(NamedTuple):
    """The job that does the work: a new one, or the one that a first caller enqueued."""

    id: str
    first: bool

    @property
    def duplicate(self) -> bool:
        """Whether the key was known, and no job was added."""
        return not self.first


def token_of(job: str) -> bytes:
    """The bytes of a job's id."""
    return bytes.fromhex(job.replace("-", ""))


def id_of(token: bytes) -> str:
    """The id of a job from its bytes."""
    text = bytes(token).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def job_scope(name: str) -> str:
    """The namespace of a job's keys. A source's name has no colon, so the two never meet."""
    return f"job:{name}"


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
    if job.key is None:
        await session.rows(JOBS_INSERT, **plain_row(job))
        return Enqueued(job.id, first=True)
    for _ in range(ROUNDS):
        known = await claimed(session, job, job.key)
        if known is not None:
            return known
    raise Held(
        f"the key {job.key.text} of job {job.name} was claimed and given up {ROUNDS} times while "
        "this call looked: try again"
    )


async def claimed(session: Session, job: NewJob, key: Key) -> Enqueued | None:
    """Claim the key and enqueue, or say whose it is; None where it moved meanwhile."""
    made = await session.rows(
        CLAIMS_INSERT,
        scope=key.scope,
        digest=key.digest,
        key_text=key.text,
        fingerprint=None,
        ttl=job.window,
        state="done",
        token=job.token,
        lease=None,
    )
    if made:
        await session.rows(JOBS_INSERT, **plain_row(job))
        return Enqueued(job.id, first=True)
    found = await session.rows(KEYS_READ, scope=key.scope, digest=key.digest)
    if not found or found[0]["token"] is None:  # pruned or rolled back between the two statements
        return None
    token = bytes(found[0]["token"])
    if token == job.token:  # a rerun after a lost reply finds what it committed
        return Enqueued(job.id, first=True)
    if not found[0]["expired"]:
        return Enqueued(id_of(token), first=False)
    return await taken_over(session, job, key, token)


async def taken_over(session: Session, job: NewJob, key: Key, token: bytes) -> Enqueued | None:
    """The window is over: a fresh job starts, unless the old one still has work to do."""
    taken = await session.rows(
        KEYS_RETAKE,
        scope=key.scope,
        digest=key.digest,
        before=token,
        holder=id_of(token),
        token=job.token,
        ttl=job.window,
    )
    if taken:
        await session.rows(JOBS_INSERT, **plain_row(job))
        return Enqueued(job.id, first=True)
    again = await session.rows(KEYS_READ, scope=key.scope, digest=key.digest)
    if again and again[0]["token"] is not None and bytes(again[0]["token"]) == token:
        return Enqueued(id_of(token), first=False)
    return None


async def enqueue_many(session: Session, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue many jobs of one handler in the open transaction.

    Keys are claimed in one order, whatever the caller's, so that two batches never deadlock.
    """
    if not jobs:
        return []
    if any(job.key is not None for job in jobs):
        answers = {
            job.id: await enqueue(session, job)
            for job in sorted(jobs, key=lambda job: (job.key.digest if job.key else b"", job.id))
        }
        return [answers[job.id] for job in jobs]
    if session.dialect == "postgres":
        rows: list[dict[str, Value]] = [{"id": job.id, "payload": job.payload} for job in jobs]
        await session.rows_each(JOBS_INSERT, rows, **shared_values(jobs[0]))
    else:
        await session.write_each(JOBS_INSERT, [plain_row(job) for job in jobs])
    return [Enqueued(job.id, first=True) for job in jobs]
