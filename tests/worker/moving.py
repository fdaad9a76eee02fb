"""Jobs brought into every situation by duly's own statements, and every attempt to move them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.defaults import WAIT
from duly.core.errors import LeaseLost
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.core.states import JobState
from duly.jobs import lease as leases
from duly.jobs.lease import (
    NO_RESCUE_QUOTA,
    FetchRequest,
    JobSettlement,
    LeasedJob,
    QueueDemand,
    finish_inside,
    settle,
)
from duly.jobs.outcome import DONE, JobOutcome
from duly.jobs.workers import WorkerIdentity, record_heartbeat, remove_worker, rescue
from duly.ledger.lease import Lease
from duly.worker.slots import FIRST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.core.session import Session
    from duly.types import Store
    from tests.conftest import HandClock
    from tests.worker.records import Records

HOUR = 3600 * 1_000_000
NAME = QUEUE = "moved"
OTHER_TOKEN = b"o" * 16
# Longer than the longest wait after a rescue.
BACK = timedelta(minutes=5)


class Bench:
    """A store, one job, and one worker that lives for an hour after its last sign of life."""

    def __init__(self, store: Store, records: Records, clock: HandClock) -> None:
        self.store, self.records, self.clock = store, records, clock
        self.job, self.worker = new_id(), new_id()

    def run(self, operation: Callable[[Session], Any]) -> Any:
        """An operation in a transaction of its own."""
        return finish(self.store.sync_runner.run(operation, wait=WAIT))

    def beat(self) -> None:
        """The worker lives."""
        self.run(
            lambda session: record_heartbeat(
                session, WorkerIdentity(self.worker, "host", 1, "[]", HOUR)
            )
        )

    def leave(self) -> None:
        """The worker ends."""
        self.run(lambda session: remove_worker(session, self.worker))

    def insert(self, delay: int = 0) -> None:
        """Enqueue the job."""
        assert self.run(lambda session: insert(session, self.job, delay))

    def take(self, rescued: bool = False) -> LeasedJob:
        """Lease the job."""
        leased: LeasedJob
        [leased] = self.run(lambda session: take(session, self.worker, rescued=rescued))
        assert leased.id == self.job
        return leased

    def settle(self, leased: LeasedJob, ended: JobOutcome) -> None:
        """End the lease."""
        assert self.run(lambda session: settle(session, [JobSettlement(leased.lease, ended)])) == {
            self.job
        }

    def rescue(self) -> Any:
        """Another worker takes back what is lost."""
        return self.run(lambda session: rescue(session, new_id()))

    def attempt(self, name: str, leased: LeasedJob) -> bool:
        """Try to move the job, with the lease that the caller believes in."""
        make = ATTEMPTS[name].make
        return bool(self.run(lambda session: make(session, leased, self.worker)))

    def state(self) -> JobState | None:
        """What the tables say of the job."""
        row = self.records.job(self.job)
        if row is not None:
            return JobState(row.state)
        return JobState.DONE if self.records.history(self.job) else None

    def everything(self) -> object:
        """Every row that an attempt could change."""
        return self.records.everything("duly_jobs", "duly_history", "duly_effects", "duly_claims")


async def insert(session: Session, job: str, delay: int = 0) -> Any:
    return await session.rows(
        "jobs_insert", id=job, scope=f"job:{NAME}", name=NAME, queue=QUEUE, event=None,
        payload=b"1", delay=delay, at=None, priority=0, max_attempts=1,
    )  # fmt: skip


async def take(
    session: Session, worker: str, *, rescued: bool = False, limit: int = 10, queue: str = QUEUE
) -> list[LeasedJob]:
    """Lease for a worker, from the very beginning of the queue."""
    want = QueueDemand(queue, limit, *FIRST, NO_RESCUE_QUOTA, alone=False)
    asked = FetchRequest(worker, 24 * HOUR, [want], stage=False)
    if not rescued:
        return await leases.take(session, asked)
    rows = await session.rows(
        "jobs_take_rescued",
        limit=limit,
        least=1,
        most=leases.ANY_RESCUES,
        queue=want.queue,
        worker=asked.worker,
        hold=asked.hold,
    )
    return [leases.leased_from(row) for row in rows]


class Attempt(NamedTuple):
    """One way to move a job: the statement of the table, and what is done with it."""

    statement: str
    make: Callable[[Session, LeasedJob, str], Any]


async def done_inside(session: Session, leased: LeasedJob, _: str) -> bool:
    try:
        await finish_inside(session, leased, "done", 0)
    except LeaseLost:
        return False
    return True


def settling(ended: JobOutcome) -> Callable[[Session, LeasedJob, str], Any]:
    """An end that is written by the worker, with those of others."""
    return lambda session, leased, _: settle(session, [JobSettlement(leased.lease, ended)])


ATTEMPTS: Mapping[str, Attempt] = {
    "insert": Attempt("jobs_insert", lambda session, leased, _: insert(session, leased.id)),
    "stage": Attempt("jobs_stage", lambda session, *_: session.rows("jobs_stage", limit=10)),
    "unpark": Attempt(
        "jobs_unpark", lambda session, *_: session.rows("jobs_unpark", names=json.dumps([NAME]))
    ),
    "take": Attempt("jobs_take", lambda session, _, worker: take(session, worker, rescued=False)),
    "take rescued": Attempt(
        "jobs_take_rescued", lambda session, _, worker: take(session, worker, rescued=True)
    ),
    "done in its transaction": Attempt("jobs_done", done_inside),
    "done": Attempt("jobs_done", settling(DONE)),
    "retry": Attempt(
        "jobs_return", settling(JobOutcome("again", delay=HOUR, attempts_used=1, error=b"{}"))
    ),
    "release": Attempt("jobs_return", settling(JobOutcome("again"))),
    "bury": Attempt("jobs_bury", settling(JobOutcome("dead", attempts_used=1, error=b"{}"))),
    "rescue": Attempt("jobs_rescue", lambda session, *_: rescue(session, new_id())),
    "replay": Attempt(
        "jobs_replay",
        lambda session, leased, _: session.rows(
            "jobs_replay", ids=json.dumps([leased.id]), start=0, gap=0
        ),
    ),
    "discard": Attempt(
        "jobs_discard", lambda session, leased, _: session.rows("jobs_discard", id=leased.id)
    ),
}


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a job stands, who asks, and what may become of it."""

    name: str
    before: JobState | None
    make: Callable[[Bench], LeasedJob]
    # By the name of an attempt; every other one must change nothing.
    allowed: Mapping[str, JobState | None] = field(default_factory=dict)


def forged(bench: Bench) -> LeasedJob:
    """A lease that nobody gave."""
    return LeasedJob(Lease(bench.job, OTHER_TOKEN, 1), "", NAME, QUEUE, None, None, 0, 0, 1, 0)


def under(leased: LeasedJob, **other: Any) -> LeasedJob:
    """The same job under a lease that differs in this."""
    return leased._replace(lease=leased.lease._replace(**other))


def inserted(bench: Bench, delay: int = 0) -> LeasedJob:
    """Enqueued, and leased by nobody."""
    bench.insert(delay)
    return forged(bench)


def leased(bench: Bench) -> LeasedJob:
    """Taken by a worker that lives."""
    bench.beat()
    bench.insert()
    return bench.take()


def returned(bench: Bench, ended: JobOutcome) -> LeasedJob:
    """Taken, and its lease ended."""
    lease = leased(bench)
    bench.settle(lease, ended)
    return lease


def abandoned(bench: Bench) -> LeasedJob:
    """Taken by a worker that is gone."""
    lease = leased(bench)
    bench.leave()
    return lease


def rescued(bench: Bench, times: int = 1) -> LeasedJob:
    """Taken back so many times, and its time not come yet."""
    lease = abandoned(bench)
    for number in range(times):
        if number:
            bench.clock.advance(BACK)
            lease = bench.take(rescued=True)
        assert bench.rescue()
    return lease


def after(bench: Bench, passed: timedelta, lease: LeasedJob) -> LeasedJob:
    """A while later."""
    bench.clock.advance(passed)
    return lease


def overdue(bench: Bench) -> LeasedJob:
    """Its worker lives, but the lease has lasted longer than any may."""
    lease = after(bench, timedelta(days=1), leased(bench))
    bench.beat()
    return lease


def retaken(bench: Bench) -> LeasedJob:
    """Taken, given back, and taken by somebody newer: the lease is the first one."""
    old = returned(bench, JobOutcome("again"))
    bench.take()
    return old


def lost_again(bench: Bench) -> LeasedJob:
    """Lost for the fifth time."""
    rescued(bench, 4)
    bench.clock.advance(BACK)
    return bench.take(rescued=True)


READY, LEASED, FINISHED, DEAD = JobState.READY, JobState.LEASED, JobState.DONE, JobState.DEAD
SETTLED: dict[str, JobState | None] = {
    "done in its transaction": FINISHED,
    "done": FINISHED,
    "retry": READY,
    "release": READY,
    "bury": DEAD,
}
PARKED = JobOutcome("again", delay=HOUR, parked=True)
SITUATIONS = [
    Situation("nothing is there", None, forged, {"insert": READY}),
    Situation("due", READY, inserted, {"take": LEASED}),
    Situation("not due", READY, lambda bench: inserted(bench, HOUR)),
    Situation(
        "set aside and due",
        READY,
        lambda bench: after(bench, timedelta(hours=1), inserted(bench, HOUR)),
        {"stage": READY},
    ),
    Situation(
        "due, before the clock was set back",
        READY,
        lambda bench: after(bench, timedelta(hours=-1), inserted(bench)),
    ),
    Situation("parked", READY, lambda bench: returned(bench, PARKED), {"unpark": READY}),
    Situation(
        "given back", READY, lambda bench: returned(bench, JobOutcome("again")), {"take": LEASED}
    ),
    Situation("just rescued", READY, rescued),
    Situation(
        "rescued and due",
        READY,
        lambda bench: after(bench, BACK, rescued(bench)),
        {"take rescued": LEASED},
    ),
    Situation("leased", LEASED, leased, SETTLED),
    Situation("leased, with an old token and epoch", LEASED, retaken),
    Situation("leased, with an old token", LEASED, lambda b: under(leased(b), token=OTHER_TOKEN)),
    Situation("leased, with an old epoch", LEASED, lambda b: under(leased(b), epoch=0)),
    Situation("its worker is gone", LEASED, abandoned, {**SETTLED, "rescue": READY}),
    Situation(
        "its worker is silent",
        LEASED,
        lambda bench: after(bench, timedelta(hours=1), leased(bench)),
        {**SETTLED, "rescue": READY},
    ),
    Situation(
        "past its deadline",
        LEASED,
        overdue,
        {**SETTLED, "rescue": READY},
    ),
    Situation("lost for the last time", LEASED, lost_again, {**SETTLED, "rescue": DEAD}),
    Situation(
        "dead",
        DEAD,
        lambda bench: returned(bench, JobOutcome("dead")),
        {"replay": READY, "discard": None},
    ),
    Situation("done", FINISHED, lambda bench: returned(bench, DONE)),
]
