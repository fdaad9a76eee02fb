"""Ending leases in batches: while one commit is on its way, the next ones gather.

No timer and no size to wait for: a worker with little to do settles at once, a busy one shares
commits.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol

from duly._kernel.errors import DulyError, Held, StoreRefused
from duly.jobs.endings import Ended
from duly.jobs.failures import plain
from duly.jobs.leases import Settled, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._kernel.session import Runner
    from duly.runtime.runs import Run

logger = logging.getLogger("duly")
# Larger ones would hold their locks longer, and gain nothing.
AT_ONCE = 500
# Seconds before another try where the database could not be reached, give or take.
AGAIN = 0.5


class Committed(Protocol):
    """Whoever hears that the end of a run is committed, and whether its lease still held."""

    def __call__(self, run: Run, ended: Ended, *, held: bool) -> None:
        """The slot of the run is free."""


class Settler:
    """Writes how runs ended.

    ``settled`` is called for each once that is committed, and ``after`` once for all of a batch.
    """

    def __init__(self, runner: Runner, settled: Committed, after: Callable[[], None]) -> None:
        self._runner = runner
        self._settled = settled
        self._after = after
        self._waiting: list[tuple[Run, Settled]] = []
        # How many ends are not written yet.
        self.left = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, run: Run, ended: Ended) -> None:
        """Have the end of a run written."""
        self._waiting.append((run, Settled(run.leased, ended, run.ran)))
        self.left += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def flushed(self) -> None:
        """Until everything is written."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                await self._write(batch)
        finally:
            self._task = None

    async def _write(self, batch: list[tuple[Run, Settled]]) -> None:
        """Write a batch, however often it takes. A second try finds what the first one wrote."""
        ends = [settled for _, settled in batch]
        tries = 0
        while (held := await self._tried(ends, tries)) is None:
            tries += 1
            await asyncio.sleep(AGAIN * (0.5 + random.random()))  # noqa: S311
        self.left -= len(batch)
        for run, settled in batch:
            self._settled(run, settled.ended, held=settled.leased.id in held or tries > 0)
        self._after()

    async def _tried(self, ends: list[Settled], tries: int) -> set[str] | None:
        """The leases that were still held; None where the database cannot say now."""
        # Each kind of end takes one statement, and each statement stands for itself.
        try:
            return await self._runner.run_batch(lambda session: settle(session, ends))
        except StoreRefused as problem:
            return await self._one_by_one(ends, problem)
        except DulyError as problem:
            # Held: another process is writing to SQLite, which is how it works.
            if tries == 0 and not isinstance(problem, Held):
                logger.warning("%d jobs are not settled yet, trying again: %s", len(ends), problem)
            return None
        except Exception:  # an error of ours: it must not cost the others their slots
            logger.exception("%d jobs are not settled yet, trying again", len(ends))
            return None

    async def _buried(self, one: Settled, problem: StoreRefused) -> set[str] | None:
        """An end that the database never takes: the job is dead, and says why."""
        leased = one.leased
        logger.error("the end of job %s (%s) is refused: %s", leased.id, leased.name, problem)
        error = plain(f"its end was refused: {problem}", leased.attempts + 1, "duly.StoreRefused")
        dead = [one._replace(ended=Ended("dead", burnt=1, error=error))]
        try:
            return await self._runner.run_batch(lambda session: settle(session, dead))
        except DulyError:
            return None

    async def _one_by_one(self, ends: list[Settled], problem: StoreRefused) -> set[str] | None:
        """Errors of data: no job may fail its neighbours."""
        if len(ends) == 1:
            return await self._buried(ends[0], problem)
        held: set[str] = set()
        for one in ends:
            found = await self._tried([one], tries=0)
            if found is None:
                return None
            held |= found
        return held
