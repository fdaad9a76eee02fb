"""Recording the version that a handler has applied, in one transaction with the end of its lease.

The handler is through: whatever keeps the note from being written, somebody else's lock or a server
that is away, it must neither run again for it nor be called a failure. So each is tried until it is
written, or until the database says that the lease is lost.
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
        runner: where.
        on_recorded: called with each run once that is committed, or with what is wrong with it.
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
        """Until everything is written."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _complete(self, run: Execution, version: VersionAdvance) -> None:
        try:
            await self._write_until_done(run, version)
        except Exception as problem:  # whatever it is: it must not cost the job its slot
            self._on_recorded(run, problem)
        else:
            self._on_recorded(run, None)

    async def _write_until_done(self, run: Execution, version: VersionAdvance) -> None:
        """Write, however often it takes."""
        unsure = False
        while (later := await self._try_write(run, version, unsure=unsure)) is not None:
            unsure = unsure or later is Later.UNSURE
            await asyncio.sleep(AGAIN * (0.5 + self._random.random()))

    async def _try_write(
        self, run: Execution, version: VersionAdvance, *, unsure: bool
    ) -> Later | None:
        """Write once; or why nobody can say now whether it is written."""
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
    """The version and the end of the lease, together."""
    await guard.newer(session, version)
    await finish_inside(session, run.leased, "done", run.duration)
