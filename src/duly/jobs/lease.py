"""Leases on jobs: taken in batches, settled one by one or together, by the newest holder only.

Every statement repeats state, token and epoch in its condition, so a worker that was paused past
its lease and replaced changes no row. Inside a handler's transaction that is `LeaseLost`, and the
whole of it rolls back.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import LeaseLost
from duly.jobs.statements import (
    JOBS_BURY,
    JOBS_DONE,
    JOBS_REMOVE,
    JOBS_RETURN,
    JOBS_STAGE,
    JOBS_TAKE,
    JOBS_TAKE_RESCUED,
)
from duly.ledger.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.core.session import Row, Session, Value
    from duly.jobs.outcome import JobOutcome

# Enough to keep up with any burst of jobs that come due together; each costs one small update.
STAGED = 1000
ANY_RESCUES = 2**31 - 1
# A job that was rescued so often runs alone.
POISON_RESCUES = 3
# The outcomes that take a job out of the table.
FINISHED = ("done", "stale")


class LeasedJob(NamedTuple):
    """A job that this process may work on, and its lease."""

    lease: Lease
    scope: str
    name: str
    queue: str
    event: str | None
    payload: bytes | None
    attempts: int
    rescues: int
    max_attempts: int
    created_at: int
    priority: int = 0
    run_at: int = 0
    # When it was leased, by the clock of the database.
    taken_at: int = 0
    # When it could first run: run_at moves on with every NotYet.
    due_at: int = 0

    @property
    def id(self) -> str:
        """The id of the job."""
        return self.lease.id


class RescueQuota(NamedTuple):
    """How many rescued jobs a worker can take: several rescued once, or one rescued twice.

    A twice-rescued job runs beside no other rescued one, so the two kinds take turns.
    """

    rescued: int
    lone: bool
    lone_first: bool

    def __bool__(self) -> bool:
        return self.rescued > 0 or self.lone

    def limits_by_rescues(self) -> list[tuple[int, int]]:
        """Pairs of rescues and limit, in the order to ask; the first that finds jobs is enough."""
        both = [(1, self.rescued), (2, int(self.lone))]
        return both[::-1] if self.lone_first else both


NO_RESCUE_QUOTA = RescueQuota(0, lone=False, lone_first=False)


class QueueDemand(NamedTuple):
    """How many jobs of a queue a worker can take."""

    queue: str
    fresh: int  # also to hold for a moment
    urgency: int  # where the last batch ended: its priority,
    since: int | None  # its time,
    last: str | None  # and its id
    turns: RescueQuota  # of those that came back, to start at once
    alone: bool  # to run with nothing beside it, one that came back more often


class FetchRequest(NamedTuple):
    """What a worker asks for in one round. Times are in microseconds."""

    worker: str
    hold: int
    wants: Sequence[QueueDemand]
    stage: bool


async def take(session: Session, asked: FetchRequest) -> list[LeasedJob]:
    """Lease what there is of what a worker asks for."""
    if asked.stage:
        await session.rows(JOBS_STAGE, limit=STAGED)
        for want in asked.wants:
            if want.alone and (found := await take_alone(session, asked, want)):
                return found
    taken: list[LeasedJob] = []
    for want in asked.wants:
        shared: dict[str, Value] = {"queue": want.queue, "worker": asked.worker, "hold": asked.hold}
        if asked.stage:  # they are few, and in no hurry
            taken += await take_rescued(session, want, shared)
        if want.fresh:
            place: dict[str, Value] = {
                "urgency": want.urgency,
                "since": want.since,
                "last": want.last,
            }
            rows = await session.rows(JOBS_TAKE, limit=want.fresh, **place, **shared)
            # An UPDATE gives its rows back in any order.
            ordered = sorted(rows, key=lambda row: (row["priority"], row["run_at"], row["id"]))
            taken += map(leased_from, ordered)
    return taken


async def take_rescued(
    session: Session, want: QueueDemand, shared: Mapping[str, Value]
) -> Iterator[LeasedJob]:
    """Lease rescued jobs: several rescued once, or one rescued twice."""
    rows: Sequence[Row] = []
    for times, limit in want.turns.limits_by_rescues():
        if limit and not rows:
            rows = await session.rows(
                JOBS_TAKE_RESCUED, limit=limit, least=times, most=times, **shared
            )
    return map(leased_from, rows)


async def take_alone(session: Session, asked: FetchRequest, want: QueueDemand) -> list[LeasedJob]:
    """Lease one job that was rescued so often that it may be what kills its process."""
    rows = await session.rows(
        JOBS_TAKE_RESCUED,
        limit=1,
        least=POISON_RESCUES,
        most=ANY_RESCUES,
        queue=want.queue,
        worker=asked.worker,
        hold=asked.hold,
    )
    return list(map(leased_from, rows))


def leased_from(row: Row) -> LeasedJob:
    """A leased job from its row."""
    lease = Lease(row["id"], bytes(row["token"]), row["epoch"])
    values = {name: row[name] for name in LeasedJob._fields[1:]}
    if values["payload"] is not None:
        values["payload"] = bytes(values["payload"])
    return LeasedJob(lease, **values)


async def finish_inside(session: Session, leased: LeasedJob, outcome: str, ran: int) -> None:
    """End the lease in the handler's own transaction, or raise so that all of it rolls back."""
    fence = leased.lease.fence()
    rows = await session.rows(JOBS_DONE, **fence, outcome=outcome, ran=ran)
    if rows and not session.can_move_rows:
        rows = await session.rows(JOBS_REMOVE, **fence)
    if not rows:
        raise lease_lost_error(leased)


async def finish_batch_inside(session: Session, each: Sequence[JobSettlement]) -> set[str]:
    """End the leases of a batch in its own transaction; return the ids of those that were lost.

    One statement for all of them, in the order of their ids, so that no two batches lock each
    other out. The caller rolls back unless there are none.
    """
    ordered = sorted(each, key=lambda one: one.lease.id)
    return {one.lease.id for one in ordered} - await settle_finished(session, ordered)


class JobSettlement(NamedTuple):
    """The end of one lease, to be written."""

    lease: Lease
    ended: JobOutcome
    ran: int = 0
    # Which run of the job it was, for the record of an end that the database refuses.
    attempt: int = 1


async def settle(session: Session, each: Sequence[JobSettlement]) -> set[str]:
    """End many leases; return the ids of those that were still held."""
    finished = [one for one in each if one.ended.kind in FINISHED]
    dead = [one for one in each if one.ended.kind == "dead"]
    again = [one for one in each if one.ended.kind == "again"]
    held = await settle_finished(session, finished) if finished else set()
    held |= await settle_unfinished(session, JOBS_BURY, dead)
    held |= await settle_unfinished(session, JOBS_RETURN, again)
    return held


async def settle_finished(session: Session, each: Sequence[JobSettlement]) -> set[str]:
    """End the leases of finished jobs, in one statement; return the ids still held."""
    rows = await session.rows_each(
        JOBS_DONE,
        [
            {**one.lease.fence_texts(), "outcome": one.ended.kind, "ran": str(one.ran)}
            for one in each
        ],
    )
    held = {row["id"] for row in rows}
    if held and not session.can_move_rows:
        await session.rows_each(JOBS_REMOVE, [{"id": job} for job in sorted(held)])
    return held


async def settle_unfinished(
    session: Session, statement: str, each: Sequence[JobSettlement]
) -> set[str]:
    """End the leases of jobs that are retried or dead; return the ids still held."""
    if len(each) > 1 and session.can_batch:
        rows = await session.rows_each(
            statement,
            [
                {
                    **one.lease.fence_texts(),
                    **texts(unfinished_values(one)),
                    "error": one.ended.error,
                }
                for one in each
            ],
        )
        return {row["id"] for row in rows}
    held: set[str] = set()
    for one in each:
        values = {**one.lease.fence(), **unfinished_values(one), "error": one.ended.error}
        held |= {row["id"] for row in await session.rows(statement, **values)}
    return held


def unfinished_values(one: JobSettlement) -> dict[str, Value]:
    """The parameters of a job that did not finish: its counts, and when it runs again."""
    ended = one.ended
    counted: dict[str, Value] = {"burnt": ended.attempts_used, "rescued": ended.rescued}
    if ended.kind == "dead":
        return counted
    return {**counted, "delay": ended.delay, "parked": ended.parked}


def texts(values: Mapping[str, Value]) -> dict[str, Value]:
    """Numbers and booleans as the texts that PostgreSQL reads."""
    return {name: str(value).lower() for name, value in values.items()}


def lease_lost_error(leased: LeasedJob) -> LeaseLost:
    """The error of a run whose lease is no longer the newest."""
    problem = LeaseLost(
        f"the lease on job {leased.id} ({leased.name}, epoch {leased.lease.epoch}) was lost: a "
        "newer run has it, or it was settled before. What this run wrote is rolled back"
    )
    problem.lease = leased.lease
    return problem


def json_list(texts: Sequence[str]) -> str:
    """Many texts as one parameter, in JSON."""
    return json.dumps(sorted(texts))
