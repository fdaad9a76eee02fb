"""Maintenance by worker and relay: write counters, warn of a missing relay, prune."""

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
# Seconds between two rounds of pruning, give or take half, so that workers take turns.
PRUNING = 60.0
# Seconds between two flushes of the counters: a killed process loses as much.
COUNTERS_FLUSH = 2.0
# Chunks in a row of each pruner; each holds its locks for milliseconds.
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
    """Counters of a worker or a relay that are kept in memory until they are flushed."""

    async def flush(self, runner: Runner) -> None:
        """Write what was counted since the last flush."""


async def flush_counters_periodically(runner: Runner, counters: Counters, pause: float) -> None:
    """Flush the counters for as long as the worker or the relay runs."""
    while True:
        await asyncio.sleep(pause)
        try:
            await counters.flush(runner)
        except DulyError as problem:
            logger.debug("counters could not be written, they are kept: %s", problem)


async def watch_relays(runner: Runner, attendance: RelayLiveness, pause: float) -> None:
    """Warn if handlers stage messages and no relay is alive, for as long as the worker runs."""
    while True:
        await asyncio.sleep(pause)
        if attendance.is_check_due():
            try:
                unattended = await runner.run_autocommit(attendance.is_unattended, wait=WAIT)
            except DulyError as problem:
                logger.debug("the check for live relays failed: %s", problem)
            else:
                attendance.warn_if_unattended(unattended=unattended)


async def prune_periodically(runner: Runner, dice: Random) -> None:
    """Prune for as long as the worker or the relay runs."""
    while True:
        await asyncio.sleep(PRUNING * (0.5 + dice.random()))
        try:
            for prune in PRUNERS:
                for _ in range(CHUNKS):
                    if await prune(runner, PRUNE_CHUNK) < PRUNE_CHUNK:
                        break
        except DulyError as problem:
            logger.warning("pruning failed, trying again later: %s", problem)
