"""The scheduler of a worker: looks at the database's clock, and fires what is due.

Every worker has one, and none of them leads: see `duly.jobs.schedule`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.clock import from_microseconds
from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.jobs.schedule import MOST, due_step, fire, read_state

if TYPE_CHECKING:
    from duly.jobs.schedule import Schedule, ScheduleState, ScheduleStep
    from duly.worker.dependencies import WorkerDependencies

logger = logging.getLogger("duly")
# Seconds between two looks at least, where a slot is at hand.
SOONEST = 0.02


class Scheduler:
    """One worker's look at the schedules of its application."""

    def __init__(self, dependencies: WorkerDependencies, pause: float) -> None:
        # Seconds between two looks at most: the database's clock counts, and may be set.
        self._longest = pause
        self._monotonic = dependencies.host.monotonic
        self._runner = dependencies.store.async_runner
        self._schedules = dependencies.schedules
        self._jobs = dependencies.registries.jobs
        self._wakeup = dependencies.wakeup

    async def run(self) -> None:
        """Look for as long as the worker works."""
        while True:
            pause = self._longest
            try:
                pause = await self.tick()
            except DulyError as problem:
                logger.warning("the schedules could not be looked at: %s", problem)
            await asyncio.sleep(pause)

    async def tick(self) -> float:
        """Fire what is due; in how many seconds to look again."""
        if not list(self._schedules):
            return self._longest
        began = self._monotonic()
        known = await self._runner.run_autocommit(read_state, wait=WAIT)
        for schedule in self._schedules:
            if due_step(schedule, known) is not None:
                await self._fire(schedule)
        return max(self._pause(known) - (self._monotonic() - began), SOONEST)

    async def _fire(self, schedule: Schedule) -> None:
        """Fire one schedule; a failure does not keep the others from their turn."""
        try:
            step = await self._runner.run(
                lambda session: fire(session, schedule, self._jobs), wait=WAIT
            )
        except DulyError as problem:
            logger.warning("job %s could not be scheduled now: %s", schedule.job, problem)
            return
        if step is not None and step.slots:
            self._wakeup.notify(("jobs",))
            self._log_skipped_slots(schedule, step)

    def _log_skipped_slots(self, schedule: Schedule, step: ScheduleStep) -> None:
        if step.more:
            logger.error(
                "job %s missed more than %d slots while no worker ran: those before %s are left "
                "out",
                schedule.job,
                MOST,
                from_microseconds(step.slots[0]).isoformat(),
            )

    def _pause(self, known: ScheduleState) -> float:
        """The seconds from a look until the next slot of any schedule, or the longest pause."""
        horizon = known.now + int(self._longest * 1_000_000)
        coming = [next(schedule.slots(known.now, horizon), horizon) for schedule in self._schedules]
        return (min(coming, default=horizon) - known.now) / 1_000_000
