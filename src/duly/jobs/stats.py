"""Counts of jobs by queue, and the live workers; counted on request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.exports import export_type
from duly.jobs.statements import JOBS_COUNTS, WORKERS_LIVE

if TYPE_CHECKING:
    from duly.core.session import Row, Runner, Session


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The jobs of one queue.

    Args:
        queue: its name.
        ready: jobs that can be taken now.
        waiting: jobs whose time has not come.
        parked: those of them that wait because no worker knew their handler.
        leased: jobs that run.
        dead: dead jobs.
        oldest: how long the first of the ready ones could have been taken; None where none is.
    """

    queue: str
    ready: int
    waiting: int
    parked: int
    leased: int
    dead: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker that was seen within its lease."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]


@export_type
@dataclass(frozen=True, slots=True)
class Stats:
    """The jobs of all queues, and the live workers.

    Args:
        queues: the queues that have jobs, by name.
        workers: the workers that live.
    """

    queues: dict[str, QueueStats]
    workers: tuple[LiveWorker, ...]

    @property
    def ready(self) -> int:
        """Jobs that can be taken now."""
        return sum(queue.ready for queue in self.queues.values())

    @property
    def waiting(self) -> int:
        """Jobs whose time has not come."""
        return sum(queue.waiting for queue in self.queues.values())

    @property
    def leased(self) -> int:
        """Jobs that run."""
        return sum(queue.leased for queue in self.queues.values())

    @property
    def dead(self) -> int:
        """Dead jobs."""
        return sum(queue.dead for queue in self.queues.values())

    @property
    def oldest(self) -> timedelta | None:
        """How long the first of all ready jobs could have been taken; None where none is."""
        ages = [queue.oldest for queue in self.queues.values() if queue.oldest is not None]
        return max(ages, default=None)


async def count_jobs(runner: Runner) -> Stats:
    """Count the rows that are in the table now; those that are done have left it."""

    async def look(session: Session) -> Stats:
        queues = [queue_from(row) for row in await session.rows(JOBS_COUNTS)]
        workers = [worker_from(row) for row in await session.rows(WORKERS_LIVE)]
        return Stats({one.queue: one for one in queues}, tuple(workers))

    return await runner.run_autocommit(look, wait=WAIT)


def queue_from(row: Row) -> QueueStats:
    """One queue from its row."""
    age = row["oldest"]
    return QueueStats(
        queue=row["queue"],
        ready=row["ready"],
        waiting=row["waiting"],
        parked=row["parked"],
        leased=row["leased"],
        dead=row["dead"],
        oldest=None if age is None else timedelta(microseconds=age),
    )


def worker_from(row: Row) -> LiveWorker:
    """One worker from its row."""
    return LiveWorker(row["id"], row["host"], row["pid"], tuple(json.loads(row["queues"])))
