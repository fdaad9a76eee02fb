"""What worker and relay do now and then: write counters, watch for relays, remove what is old."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from duly.core.defaults import PRUNE_CHUNK, WAIT
from duly.core.errors import DulyError
from duly.inbox.retention import prune_bodies, prune_counters, prune_events
from duly.jobs.workers import prune_effects, prune_history, prune_workers
from duly.ledger.claims import prune_committed

if TYPE_CHECKING:
    from random import Random

    from duly.core.session import Runner
    from duly.outbox.relay_liveness import RelayLiveness

logger = logging.getLogger("duly")
# Seconds between two looks at what is old; each worker has its own moment.
PRUNING = 60.0
# Seconds between two flushes of the counters: what a killed process may forget to have counted.
COUNTERS_FLUSH = 2.0
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


class Counters(Protocol):
    """Counts of a worker or a relay that are kept in memory until they are written."""

    async def flush(self, runner: Runner) -> None:
        """Write what was counted since the last time."""


async def flush_counters_periodically(runner: Runner, counters: Counters, pause: float) -> None:
    """Write the counters for as long as the worker or the relay works."""
    while True:
        await asyncio.sleep(pause)
        try:
            await counters.flush(runner)
        except DulyError as problem:
            logger.debug("counters could not be written, they are kept: %s", problem)


async def watch_relays(runner: Runner, attendance: RelayLiveness, pause: float) -> None:
    """Say that no relay is alive if handlers stage messages, for as long as the worker works."""
    while True:
        await asyncio.sleep(pause)
        if attendance.is_check_due():
            try:
                unattended = await runner.run_autocommit(attendance.is_unattended, wait=WAIT)
            except DulyError as problem:
                logger.debug("relays could not be looked for: %s", problem)
            else:
                attendance.warn_if_unattended(unattended=unattended)


async def prune_periodically(runner: Runner, dice: Random) -> None:
    """Remove what is old for as long as the worker or the relay works."""
    while True:
        await asyncio.sleep(PRUNING * (0.5 + dice.random()))
        try:
            for prune in PRUNERS:
                for _ in range(CHUNKS):
                    if await prune(runner, PRUNE_CHUNK) < PRUNE_CHUNK:
                        break
        except DulyError as problem:
            logger.warning("what is old could not be removed now: %s", problem)
