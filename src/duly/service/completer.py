"""Settling leases in batches: while one commit is in flight, the next settlements gather.

There is no timer and no size to wait for: an idle worker settles at once, a busy one shares
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
# A larger batch holds its locks longer, and gains nothing.
AT_ONCE = 500
# Seconds before another try, give or take half.
AGAIN = 0.5


class Later(Enum):
    """Why a settlement is tried again."""

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
    """Called when a settlement is committed; ``held`` is False if the lease was lost."""

    def __call__(self, run: Owner_contra, ended: Any, *, held: bool) -> None:
        """The slot of the run is free."""


class Completer(Generic[Owner, End]):
    """Settles the leases of jobs or of messages.

    Args:
        runner: runs the transactions.
        write: ends many leases in one transaction; returns the ids of those that still held.
        refused: returns what to write instead if the database refuses a settlement.
        on_settled: called for each committed settlement.
        after: called once for each batch.
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
        # How many settlements are not written yet.
        self.pending = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, run: Owner, end: End) -> None:
        """Add a settlement."""
        self._waiting.append((run, end))
        self.pending += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_batches())

    async def flush(self) -> None:
        """Wait until everything is written."""
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
        """Write a batch, try by try. A later try finds what an earlier one wrote."""
        ends = [settled for _, settled in batch]
        unsure, first = False, True
        while not isinstance(held := await self._try_write(ends, first=first), set):
            unsure, first = unsure or held is Later.UNSURE, False
            await asyncio.sleep(AGAIN * (0.5 + self._random.random()))
        self.pending -= len(batch)
        for run, settled in batch:
            # An earlier try may have been committed: then this one finds no lease.
            self._on_settled(run, settled.ended, held=settled.lease.id in held or unsure)
        self._after()

    async def _try_write(self, ends: list[End], *, first: bool) -> set[str] | Later:
        """Return the ids of the leases that still held, or why another try is needed."""
        # Each kind of outcome takes one statement, which is a transaction by itself.
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
        except Exception:  # an error in duly: it must not cost the others their slots
            logger.exception("%d leases are not settled yet, trying again", len(ends))
            return Later.UNSURE

    async def _write_dead(self, one: End, problem: StoreRefused) -> set[str] | Later:
        """Settle as dead what the database refuses."""
        logger.error("the settlement of %s is refused: %s", one.lease.id, problem)
        dead = [self._refused(one, problem)]
        try:
            return await self._runner.run_batch(lambda session: self._settle(session, dead))
        except DulyError:
            return Later.UNSURE

    async def _write_one_by_one(self, ends: list[End], problem: StoreRefused) -> set[str] | Later:
        """Write each by itself: an error of data must not fail its neighbours."""
        if len(ends) == 1:
            return await self._write_dead(ends[0], problem)
        held: set[str] = set()
        for one in ends:
            found = await self._try_write([one], first=True)
            if not isinstance(found, set):
                return Later.UNSURE  # those before it are written
            held |= found
        return held
