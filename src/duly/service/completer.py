"""Ending leases in batches: while one commit is on its way, the next ones gather.

No timer and no size to wait for: a worker with little to do settles at once, a busy one shares
commits.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from duly.core.errors import DulyError, InProgress, StoreRefused
from duly.core.host import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from random import Random

    from duly.core.session import Runner, Session
    from duly.ledger.lease import Lease

logger = logging.getLogger("duly")
# Larger ones would hold their locks longer, and gain nothing.
AT_ONCE = 500
# Seconds before another try where the database could not be reached, give or take.
AGAIN = 0.5


class Later(Enum):
    """Why an end is not known to be written, and is tried again."""

    BUSY = "it never began: another process is writing"
    UNSURE = "it may have been written"


class Settlement(Protocol):
    """The end of one lease, as it is written."""

    @property
    def lease(self) -> Lease:
        """Which one."""

    @property
    def ended(self) -> Any:
        """How it ended."""


Owner = TypeVar("Owner")
End = TypeVar("End", bound=Settlement)
Owner_contra = TypeVar("Owner_contra", contravariant=True)


class OnSettled(Protocol[Owner_contra]):
    """Whoever hears that the end of a run is committed, and whether its lease still held."""

    def __call__(self, run: Owner_contra, ended: Any, *, held: bool) -> None:
        """The slot of the run is free."""


class Completer(Generic[Owner, End]):
    """Writes how runs ended, of jobs or of messages.

    Args:
        runner: where.
        write: ends many leases in one transaction; returns the ids of those that still held.
        refused: what to write instead where the database never takes an end.
        on_settled: called for each once that is committed.
        after: called once for all of a batch.
        dice: for the pause before another try.
    """

    def __init__(
        self,
        runner: Runner,
        write: Callable[[Session, Sequence[End]], Coroutine[Any, Any, set[str]]],
        refused: Callable[[End, StoreRefused], End],
        on_settled: OnSettled[Owner],
        after: Callable[[], None],
        dice: Random = HOST.random,
    ) -> None:
        self._runner = runner
        self._settle = write
        self._refused = refused
        self._on_settled = on_settled
        self._after = after
        self._random = dice
        self._waiting: list[tuple[Owner, End]] = []
        # How many ends are not written yet.
        self.pending = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, run: Owner, end: End) -> None:
        """Have the end of a run written."""
        self._waiting.append((run, end))
        self.pending += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_batches())

    async def flush(self) -> None:
        """Until everything is written."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _write_batches(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                await self._write_until_done(batch)
        finally:
            self._task = None

    async def _write_until_done(self, batch: list[tuple[Owner, End]]) -> None:
        """Write a batch, however often it takes. A second try finds what the first one wrote."""
        ends = [settled for _, settled in batch]
        unsure, first = False, True
        while not isinstance(held := await self._try_write(ends, first=first), set):
            unsure, first = unsure or held is Later.UNSURE, False
            await asyncio.sleep(AGAIN * (0.5 + self._random.random()))
        self.pending -= len(batch)
        for run, settled in batch:
            # An earlier try may have been committed: then this one finds nothing to settle.
            self._on_settled(run, settled.ended, held=settled.lease.id in held or unsure)
        self._after()

    async def _try_write(self, ends: list[End], *, first: bool) -> set[str] | Later:
        """The leases that were still held, or why the database cannot say now."""
        # Each kind of end takes one statement, and each statement stands for itself.
        try:
            return await self._runner.run_batch(lambda session: self._settle(session, ends))
        except StoreRefused as problem:
            return await self._write_one_by_one(ends, problem)
        except DulyError as problem:
            # InProgress: another process is writing to SQLite, which is how it works.
            if isinstance(problem, InProgress):
                return Later.BUSY
            if first:
                logger.warning(
                    "%d leases are not settled yet, trying again: %s", len(ends), problem
                )
            return Later.UNSURE
        except Exception:  # an error of ours: it must not cost the others their slots
            logger.exception("%d leases are not settled yet, trying again", len(ends))
            return Later.UNSURE

    async def _write_dead(self, one: End, problem: StoreRefused) -> set[str] | Later:
        """An end that the database never takes: what is settled is dead, and says why."""
        logger.error("the end of %s is refused: %s", one.lease.id, problem)
        dead = [self._refused(one, problem)]
        try:
            return await self._runner.run_batch(lambda session: self._settle(session, dead))
        except DulyError:
            return Later.UNSURE

    async def _write_one_by_one(self, ends: list[End], problem: StoreRefused) -> set[str] | Later:
        """Errors of data: none may fail its neighbours."""
        if len(ends) == 1:
            return await self._write_dead(ends[0], problem)
        held: set[str] = set()
        for one in ends:
            found = await self._try_write([one], first=True)
            if not isinstance(found, set):
                return Later.UNSURE  # those before it are written
            held |= found
        return held
