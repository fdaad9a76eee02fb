"""``run_jobs``: the worker in the test's own process, one job at a time, until nothing is due."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, get_args

from duly.app.sync import loop_is_running
from duly.core.defaults import WAIT
from duly.core.errors import SyncAsyncMismatch, UsageError
from duly.core.validation import checked_count
from duly.jobs.workers import peek_queues
from duly.testing.clocks import ClockMover
from duly.testing.guard import refuse_foreign
from duly.testing.runs import Ran, RecordingStats, Runs
from duly.worker.settings import GRACE, LEASE, worker_settings

if TYPE_CHECKING:
    from duly.app.duly import Duly
    from duly.testing.clocks import HandClock

Until = Literal["idle", "settled"]


class RunJobs:
    """Runs the jobs of one application: ``run_jobs()``, or ``await run_jobs.aio()``.

    Args:
        app: the application, on a database for tests.
        clock: the one that the app goes by, for ``until="settled"``.
    """

    def __init__(self, app: Duly, clock: HandClock | None = None) -> None:
        self._app = app
        self._clock = clock

    def __call__(self, *, until: Until = "idle", times: int | None = None) -> Runs:
        """Run jobs, and return what ran: one after the other, as they are due.

        Args:
            until: ``idle`` ends when no job is due now; ``settled`` moves the clock to what is
                due next, until every job is done or dead.
            times: how many runs at most. A bulk handler then gets one job at a time.
        """
        if loop_is_running():
            raise SyncAsyncMismatch("an event loop is running here: await run_jobs.aio(…)")
        return asyncio.run(self._run_in_own_loop(until, times))

    async def aio(self, *, until: Until = "idle", times: int | None = None) -> Runs:
        """`run_jobs()`, awaited."""
        refuse_foreign(self._app)
        shift = JobPass(self._app, checked_times(times))
        if checked_until(until) == "idle":
            return await shift.run_until_idle()
        return await shift.run_until_settled(ClockMover(self._clock))

    async def _run_in_own_loop(self, until: Until, times: int | None) -> Runs:
        """Run in an event loop of its own, and close what that leaves open."""
        try:
            return await self.aio(until=until, times=times)
        finally:
            await self._app.process.release_loop()


class JobPass:
    """The runs of one call."""

    def __init__(self, app: Duly, times: int | None) -> None:
        self._app = app
        self._left = times
        self._runs: list[Ran] = []
        self._queues = [*worker_settings(1, app.process.queues(None), LEASE, GRACE).queues]

    async def run_until_idle(self) -> Runs:
        """Go through the queues, one at a time, until none of them has anything to do."""
        while not self._limit_reached:
            before = len(self._runs)
            for queue in self._queues:
                await self._run_queue(queue)
            if len(self._runs) == before or (len(self._queues) == 1 and self._left is None):
                break
        return Runs(self._runs)

    async def run_until_settled(self, mover: ClockMover) -> Runs:
        """Run what is due, then move the clock to what is due next, until nothing is left."""
        while True:
            runs = await self.run_until_idle()
            wait = None if self._limit_reached else await self._next_due()
            if wait is None:
                return runs
            mover.move(wait, len(runs))

    @property
    def _limit_reached(self) -> bool:
        return self._left is not None and len(self._runs) >= self._left

    async def _run_queue(self, queue: str) -> None:
        if self._limit_reached:
            return
        settings = worker_settings(1, [queue], LEASE, GRACE)
        worker = self._app.process.worker(replace(settings, batching=self._left is None))

        def note(run: Ran) -> None:
            self._runs.append(run)
            if self._left is not None:  # one at a time: a worker that goes on could run more
                worker.stop()

        worker.worked = RecordingStats(note)
        await worker.run("idle")

    async def _next_due(self) -> timedelta | None:
        """How long until something is due."""
        seen = await self._app.store.async_runner.run_autocommit(
            lambda session: peek_queues(session, self._queues), wait=WAIT
        )
        if seen.next_in is None:
            return None
        return timedelta(microseconds=max(seen.next_in, 0))


def checked_until(until: object) -> Until:
    """When to end."""
    if until not in get_args(Until):
        raise UsageError('until must be "idle" or "settled"')
    return until  # type: ignore[return-value]  # that was looked at just now


def checked_times(times: object) -> int | None:
    """How many runs at most."""
    return None if times is None else checked_count("times", times, most=1_000_000)
