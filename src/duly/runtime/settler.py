"""Ending leases in batches: while one commit is on its way, the next ones gather.

No timer and no size to wait for: a worker with little to do settles at once, a busy one shares
commits.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from duly._kernel.errors import DulyError
from duly.jobs.leases import Settled, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._kernel.session import Runner
    from duly.jobs.endings import Ended
    from duly.runtime.runs import Run

logger = logging.getLogger("duly")
# Larger ones would hold their locks longer, and gain nothing.
AT_ONCE = 500
# Seconds before another try where the database could not be reached, give or take.
AGAIN = 0.5


class Settler:
    """Writes how runs ended; ``settled`` is called for each once that is committed."""

    def __init__(self, runner: Runner, settled: Callable[[Run, Ended, bool], None]) -> None:
        self._runner = runner
        self._settled = settled
        self._waiting: list[tuple[Run, Settled]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, run: Run, ended: Ended) -> None:
        """Have the end of a run written."""
        self._waiting.append((run, Settled(run.leased, ended, run.ran)))
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
        for run, settled in batch:
            self._settled(run, settled.ended, settled.leased.id in held or tries > 0)

    async def _tried(self, ends: list[Settled], tries: int) -> set[str] | None:
        """The leases that were still held; None where the database cannot say."""
        try:
            return await self._runner.run_batch(lambda session: settle(session, ends))
        except DulyError as problem:
            if tries == 0:
                logger.warning("%d jobs are not settled yet, trying again: %s", len(ends), problem)
            return None
