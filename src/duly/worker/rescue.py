"""Rescue: leases of lost workers are taken back, at the start and periodically."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.core.retry import RESCUE_BACKOFF
from duly.jobs.workers import RESCUED_AT_ONCE, record_heartbeat, rescue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from duly.core.retry import Backoff
    from duly.core.session import Row, Runner, Session
    from duly.jobs.workers import WorkerIdentity
    from duly.worker.stats import Worked

logger = logging.getLogger("duly")


class JobRescuer(NamedTuple):
    """Takes back the leases of lost workers."""

    runner: Runner
    worker: WorkerIdentity
    worked: Worked
    wake: Callable[[], None]
    backoff: Backoff
    random: Random

    async def rescue_now(self) -> None:
        """Take back every lease that is lost."""
        while len(await self._rescue_batch()) >= RESCUED_AT_ONCE:
            continue

    async def _rescue_batch(self) -> Sequence[Row]:
        rows = await self.runner.run_autocommit(
            lambda session: take_back(session, self.worker, self.backoff), wait=WAIT
        )
        for row in rows:
            self.worked.rescued += 1
            log = logger.error if row["state"] == "dead" else logger.warning
            log(
                "job %s (%s) was taken back from a lost worker, rescue %s: it is %s",
                row["id"],
                row["name"],
                row["rescues"],
                "dead" if row["state"] == "dead" else "tried again",
            )
        if rows:
            self.wake()
        return rows

    async def run(self, pause: float) -> None:
        """Look for lost leases again and again for as long as the worker works.

        The first look is the worker's own, before its first job. A second one beside it would have
        the rows that the first one passes over, and be broken off when a worker ends that finds no
        job.
        """
        while True:
            await asyncio.sleep(pause * (0.75 + self.random.random() / 2))
            try:
                await self.rescue_now()
            except DulyError as problem:
                logger.warning("lost leases could not be looked for: %s", problem)


async def take_back(
    session: Session, worker: WorkerIdentity, backoff: Backoff = RESCUE_BACKOFF
) -> Sequence[Row]:
    """Take back leases, and say at once that this worker lives.

    After a step of the clock, or when no worker could write for a while, every worker looks lost.
    What this one leases next must not be rescued from it in turn, until the job is dead.
    """
    rows = await rescue(session, worker.id, backoff)
    if rows:
        await record_heartbeat(session, worker)
    return rows
