"""The rows of workers: heartbeats, rescue of lost leases, and pruning."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from duly.core.clock import MICROSECOND
from duly.core.defaults import HISTORY_KEPT, WAIT
from duly.core.failures import reason_record
from duly.core.retry import RESCUE_BACKOFF, RESCUE_LIMIT
from duly.jobs.lease import json_list
from duly.jobs.statements import (
    EFFECTS_PRUNE,
    HISTORY_PRUNE,
    JOBS_HELD,
    JOBS_NEXT,
    JOBS_RESCUE,
    JOBS_UNPARK,
    WORKERS_ASLEEP,
    WORKERS_BEAT,
    WORKERS_IDLE,
    WORKERS_LEAVE,
    WORKERS_PRUNE,
)
from duly.ledger.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.retry import Backoff
    from duly.core.session import Row, Runner, Session

# A lease lost with its worker; small enough that the statement holds its locks for a moment.
RESCUED_AT_ONCE = 100
# The row of a worker that was last seen so long ago is of no use.
WORKERS_KEPT = timedelta(days=1)
# Effects keep an external call from being made again: kept as long as claims.
EFFECTS_KEPT = timedelta(days=30)
LOST_WORKER = (
    "the lease was lost: its worker crashed, was stopped, or was not seen for too long while the "
    "job was leased"
)
LOST_WORKER_RECORD = reason_record(LOST_WORKER, 0, "duly.errors.LeaseLost")


class WorkerIdentity(NamedTuple):
    """One worker: a process, its queues, and how long a heartbeat lasts."""

    id: str
    host: str
    pid: int
    queues: str
    lease: int


async def record_heartbeat(session: Session, worker: WorkerIdentity) -> set[Lease]:
    """Write a heartbeat; return the leases that the worker still has."""
    await session.rows(WORKERS_BEAT, **worker._asdict(), idle=False)
    rows = await session.rows(JOBS_HELD, worker=worker.id)
    return {Lease(row["id"], bytes(row["token"]), row["epoch"]) for row in rows}


async def set_idle(session: Session, worker: str, *, wanted: bool) -> None:
    """Record whether the worker wants a notification when there is work."""
    await session.rows(WORKERS_IDLE, id=worker, idle=wanted)


async def remove_worker(session: Session, worker: str) -> None:
    """Remove the row of a worker that ends."""
    await session.rows(WORKERS_LEAVE, id=worker)


async def rescue(session: Session, worker: str, backoff: Backoff = RESCUE_BACKOFF) -> Sequence[Row]:
    """Take back leases whose worker is lost; return each job with its new state.

    A worker that was paused does not rescue its own jobs: it knows what it runs.
    """
    await session.rows(WORKERS_ASLEEP)
    return await session.rows(
        JOBS_RESCUE,
        worker=worker,
        limit=RESCUED_AT_ONCE,
        most=RESCUE_LIMIT,
        waits=json.dumps([backoff.delay(n + 1, 1.0) for n in range(RESCUE_LIMIT)]),
        error=LOST_WORKER_RECORD,
    )


class QueueOutlook(NamedTuple):
    """Whether a job is due, the most rescues of any, and microseconds until the next."""

    due: bool
    rescued: int
    next_in: int | None


async def peek_queues(session: Session, queues: Sequence[str]) -> QueueOutlook:
    """Look at the queues without leasing anything."""
    [row] = await session.rows(JOBS_NEXT, queues=json_list(queues))
    return QueueOutlook(bool(row["due"]), int(row["rescued"]), row["next_in"])


async def unpark(session: Session, names: Sequence[str]) -> int:
    """Make parked jobs ready whose handlers this process knows; return how many."""
    return len(await session.rows(JOBS_UNPARK, names=json_list(names)))


async def prune_history(runner: Runner, limit: int) -> int:
    """Delete up to ``limit`` old rows of the history."""
    return await prune_older_than(runner, HISTORY_PRUNE, HISTORY_KEPT, limit)


async def prune_effects(runner: Runner, limit: int) -> int:
    """Delete up to ``limit`` old effects."""
    return await prune_older_than(runner, EFFECTS_PRUNE, EFFECTS_KEPT, limit)


async def prune_workers(runner: Runner, limit: int) -> int:
    """Delete up to ``limit`` rows of workers that are long gone."""
    return await prune_older_than(runner, WORKERS_PRUNE, WORKERS_KEPT, limit)


async def prune_older_than(runner: Runner, statement: str, age: timedelta, limit: int) -> int:
    """Delete up to ``limit`` rows of that age; return how many went."""

    async def delete(session: Session) -> int:
        return len(await session.rows(statement, age=age // MICROSECOND, limit=limit))

    return await runner.run_autocommit(delete, wait=WAIT)
