"""Recording the version that a handler applied, in one transaction with the end of its lease.

The handler has returned: it must neither run again nor count as failed because another process has
a lock or the server cannot be reached. So each version is tried until it is written, or until the
lease is lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import InProgress, LeaseLost, StoreRefused, StoreUnavailable
from duly.core.host import HOST
from duly.jobs.lease import finish_inside
from duly.ledger import order_guard as guard
from duly.service.completer import AGAIN, Later

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from duly.core.session import Runner, Session
    from duly.ledger.arguments import VersionAdvance
    from duly.worker.execution import Execution

logger = logging.getLogger("duly")


class VersionCompleter:
    """Writes versions, each in a transaction of its own: one that is locked delays no other.

    Args:
        runner: runs the transactions.
        on_recorded: called with each run once that is committed, or with its error.
        dice: for the pause before another try.
    """

    def __init__(
        self,
        runner: Runner,
        on_recorded: Callable[[Execution, Exception | None], None],
        dice: Random = HOST.random,
    ) -> None:
        self._random = dice
        self._runner = runner
        self._on_recorded = on_recorded
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """How many are not written yet."""
        return len(self._tasks)

    def add(self, run: Execution, version: VersionAdvance) -> None:
        """Have the version and the end of a run written."""
        task = asyncio.get_running_loop().create_task(self._complete(run, version))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Wait until everything is written."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _complete(self, run: Execution, version: VersionAdvance) -> None:
        try:
            await self._write_until_done(run, version)
        except Exception as problem:  # no error may cost the job its slot
            self._on_recorded(run, problem)
        else:
            self._on_recorded(run, None)

    async def _write_until_done(self, run: Execution, version: VersionAdvance) -> None:
        """Try until it is written."""
        unsure = False
        while (later := await self._try_write(run, version, unsure=unsure)) is not None:
            unsure = unsure or later is Later.UNSURE
            await asyncio.sleep(AGAIN * (0.5 + self._random.random()))

    async def _try_write(
        self, run: Execution, version: VersionAdvance, *, unsure: bool
    ) -> Later | None:
        """Write once; return why it may not be written, or None."""
        try:
            await self._runner.run(
                lambda session: complete_with_version(session, run, version), wait=WAIT
            )
        except InProgress:
            return Later.BUSY
        except StoreRefused:  # it would be refused again
            raise
        except StoreUnavailable as problem:
            if not unsure:
                logger.warning("a version is not recorded yet, trying again: %s", problem)
            return Later.UNSURE
        except LeaseLost:
            if not unsure:  # else an earlier try may have been committed: this one finds no lease
                raise
        return None


async def complete_with_version(session: Session, run: Execution, version: VersionAdvance) -> None:
    """Record the version and end the lease."""
    await guard.newer(session, version)
    await finish_inside(session, run.leased, "done", run.duration)
