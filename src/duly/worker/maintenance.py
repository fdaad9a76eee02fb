"""What every worker does now and then: take back lost leases, and remove what is old."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from duly.core.defaults import PRUNE_CHUNK, WAIT
from duly.core.errors import DulyError
from duly.inbox.retention import prune_bodies, prune_counters, prune_events
from duly.jobs.workers import (
    RESCUED_AT_ONCE,
    beat,
    prune_effects,
    prune_history,
    prune_workers,
    rescue,
)
from duly.ledger.prune import prune_committed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.core.session import Row, Runner, Session
    from duly.jobs.workers import Identity
    from duly.outbox.relay_liveness import Attendance
    from duly.relay.stats import Relayed
    from duly.worker.stats import Worked

logger = logging.getLogger("duly")
# Seconds between two looks at what is old; each worker has its own moment.
PRUNING = 60.0
# Seconds between two flushes of the counters: what a killed process may forget to have counted.
COUNTING = 2.0
# A chunk holds its locks for milliseconds; so many in a row, then the others have their turn.
CHUNKS = 20
PRUNERS = (
    prune_committed,
    prune_bodies,
    prune_events,
    prune_counters,
    prune_history,
    prune_effects,
    prune_workers,
)


async def rescue_now(
    runner: Runner, worker: Identity, worked: Worked, woken: Callable[[], None]
) -> None:
    """Take back every lease that is lost."""
    while True:
        rows = await runner.run_single(lambda session: taken_back(session, worker), wait=WAIT)
        for row in rows:
            worked.rescued += 1
            told = logger.error if row["state"] == "dead" else logger.warning
            told(
                "job %s (%s) was taken back from a lost worker, rescue %s: it is %s",
                row["id"],
                row["name"],
                row["rescues"],
                "dead" if row["state"] == "dead" else "tried again",
            )
        if rows:
            woken()
        if len(rows) < RESCUED_AT_ONCE:
            return


async def taken_back(session: Session, worker: Identity) -> Sequence[Row]:
    """Take back leases, and say at once that this worker lives.

    After a step of the clock, or when nobody could write for a while, every worker looks lost. What
    this one takes next must not be taken from it as well, and so on in turn, until it is dead.
    """
    rows = await rescue(session, worker.id)
    if rows:
        await beat(session, worker)
    return rows


async def rescuing(
    runner: Runner, worker: Identity, worked: Worked, woken: Callable[[], None], pause: float
) -> None:
    """Look for lost leases again and again for as long as the worker works.

    The first look is the worker's own, before its first job. A second one beside it would have the
    rows that the first one passes over, and be broken off when a worker ends that finds no job.
    """
    while True:
        await asyncio.sleep(pause * (0.75 + random.random() / 2))  # noqa: S311
        try:
            await rescue_now(runner, worker, worked, woken)
        except DulyError as problem:
            logger.warning("lost leases could not be looked for: %s", problem)


async def counting(runner: Runner, worked: Worked | Relayed) -> None:
    """Write the counters for as long as the worker or the relay works."""
    while True:
        await asyncio.sleep(COUNTING)
        try:
            await worked.flush(runner)
        except DulyError as problem:
            logger.debug("counters could not be written, they are kept: %s", problem)


async def watching_relays(runner: Runner, attendance: Attendance) -> None:
    """Say that no relay is alive if handlers stage messages, for as long as the worker works."""
    while True:
        await asyncio.sleep(COUNTING)
        if attendance.look_is_due():
            try:
                unattended = await runner.run_single(attendance.look, wait=WAIT)
            except DulyError as problem:
                logger.debug("relays could not be looked for: %s", problem)
            else:
                attendance.tell(unattended=unattended)


async def pruning(runner: Runner) -> None:
    """Remove what is old for as long as the worker or the relay works."""
    while True:
        await asyncio.sleep(PRUNING * (0.5 + random.random()))  # noqa: S311
        try:
            for prune in PRUNERS:
                for _ in range(CHUNKS):
                    if await prune(runner, PRUNE_CHUNK) < PRUNE_CHUNK:
                        break
        except DulyError as problem:
            logger.warning("what is old could not be removed now: %s", problem)
