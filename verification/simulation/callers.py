"""Callers of the ledger: processes that must do one thing once, and enqueue one job by its key."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from duly import aio
from duly.app.calls import enqueue_and_commit
from duly.core.errors import InProgress, LeaseLost, StoreUnavailable
from verification.simulation.actors import Actor
from verification.simulation.application import application

if TYPE_CHECKING:
    from verification.simulation.world import World

LEASE = timedelta(seconds=5)
LONGEST = 6.0
AGAIN = 0.7
TROUBLE = (InProgress, StoreUnavailable, LeaseLost)
PARENT = "clerk"


class Books:
    """What the callers of a schedule heard."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self.runs = 0
        self.firsts = 0
        self.jobs: set[str] = set()


class CallerActor(Actor):
    """One process that calls `fence`, `dedup` and `enqueue`, and again after a crash."""

    leases = True

    def __init__(self, world: World, name: str, books: Books) -> None:
        self.books = books
        self._fenced = self._asked = self._enqueued = False
        # Seconds that the fenced work takes: mostly less than its lease.
        self._lasts = LONGEST * world.dice.random() if world.dice.random() < 0.5 else 0.0
        super().__init__(world, name)

    def begin(self) -> None:
        """Do what is not done yet."""
        self.run(self._work())

    def died(self) -> None:
        """It comes back if there is something left to do."""
        if not self.done:
            super().died()

    @property
    def done(self) -> bool:
        """Whether it has heard everything."""
        return self._fenced and self._asked and self._enqueued

    @property
    def idle(self) -> bool:
        """Whether it has nothing left to do."""
        return self.done

    @property
    def at_rest(self) -> bool:
        """The same: it need not be there any more."""
        return self.done

    async def _work(self) -> None:
        while not self.done:
            try:
                await self._call()
            except TROUBLE as problem:
                self.world.tell(self.process, f"tries again: {problem}")
                if isinstance(problem, LeaseLost):
                    self.world.seen["fences that lost their lease"] += 1
                await asyncio.sleep(AGAIN)

    async def _call(self) -> None:
        books = self.books
        if not self._asked:
            answer = await aio.dedup(self.store, "simulation", "asked once")
            books.firsts += answer.first
            self._asked = True
        if not self._enqueued:
            app = application()
            new = app.registries.jobs.new("child", {"parent": PARENT}, key="enqueued once")
            [enqueued] = await enqueue_and_commit(self.store.async_runner, [new])
            books.jobs.add(enqueued.id)
            self._enqueued = True
        if not self._fenced:
            result = await aio.fence(
                self.store, "simulation", "done once", self._fence, lease=LEASE
            )
            books.results.append(result)
            self._fenced = True

    @property
    def _takes(self) -> float:
        """How long the work lasts: among the faults perhaps too long, in the quiet never.

        Two callers that both need longer than their lease take it from each other for ever, and
        no promise says that it ends.
        """
        quiet = self.world.nemesis.quiet
        return min(self._lasts, LEASE.total_seconds() / 2) if quiet else self._lasts

    async def _fence(self) -> int:
        self.books.runs += 1
        mine = self.books.runs
        await self.world.scene.pause("fenced work")
        await asyncio.sleep(self._takes)
        await self.world.scene.pause("fenced work")
        return mine
