"""The worker: from its first sign of life to its last, with everything it does in between."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from duly.core.clock import MICROSECOND
from duly.core.defaults import WAIT
from duly.core.errors import DulyError, Held, StoreUnavailable
from duly.core.ids import new_id
from duly.jobs.lease import names_of
from duly.jobs.workers import Identity, leave, unpark
from duly.service.maintenance import counting, pruning, watching_relays
from duly.stores.shielding import end_surely, surely
from duly.worker.executor import Crew
from duly.worker.fetcher import LATEST, Taker
from duly.worker.heartbeat import Heart
from duly.worker.rescue import rescue_now, rescuing
from duly.worker.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from duly.service.service_thread import Until
    from duly.worker.dependencies import Parts
    from duly.worker.execution import Run
    from duly.worker.settings import Settings
    from duly.worker.stats import Worked

logger = logging.getLogger("duly")
# Seconds between two looks at the clock for handlers that take too long.
WATCH = 0.1
# Seconds for a database that is busy or restarting when a worker begins.
STARTING = 20.0
# Seconds between two looks for rescued jobs while every slot is taken.
ROOM = 1.0


class Worker:
    """One process's share of the work, in one event loop."""

    def __init__(self, parts: Parts, settings: Settings) -> None:
        self._parts = parts
        self._settings = settings
        self._identity = Identity(
            new_id(),
            socket.gethostname()[:200],
            os.getpid(),
            names_of(list(settings.queues)),
            settings.lease // MICROSECOND + self._locked(),
        )
        self._crew = Crew(parts, settings.queues, self._stir)
        self._taker = Taker(parts, self._crew, self._identity)
        self._heart = Heart(
            parts.store,
            self._identity,
            self._crew.desk,
            lost=self._hear_lost,
            taking=lambda: self._taker.taking,
        )
        self._scheduler = Scheduler(parts)
        self._crew.trusted = self._heart.trusted
        self._hurried = False
        self._failed: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def worked(self) -> Worked:
        """What became of the jobs so far."""
        return self._crew.worked

    @worked.setter
    def worked(self, worked: Worked) -> None:
        """Count there instead, before it begins: for whoever wants to hear of each run."""
        self._crew.worked = worked

    def _locked(self) -> int:
        """How long a transaction of a handler may keep a heartbeat from being written."""
        if self._parts.many_writers:
            return 0
        locking = [one.timeout for one in self._parts.jobs.all() if "tx" in one.wants]
        return max(locking, default=0)

    def stop(self) -> None:
        """Take no more jobs, and end when those that run are through. From any thread."""
        self._from_outside(self._stop)

    def stop_now(self) -> None:
        """Give back what runs, and end. From any thread."""
        self._hurried = True
        self.stop()

    def wake(self) -> None:
        """Look for work now. From any thread."""
        if not self._taker.stirred.is_set():
            self._from_outside(self._stir)

    def _stop(self) -> None:
        self._taker.stopping.set()
        self._stir()

    def _stir(self) -> None:
        self._taker.stirred.set()

    def _hear_lost(self, runs: Sequence[Run]) -> None:
        self._from_outside(lambda: self._hear_lost_here(runs))

    def _hear_lost_here(self, runs: Sequence[Run]) -> None:
        self._crew.hear_lost(runs)
        self._heart.confirm()  # only now: what was held and lost must not begin in between
        self._crew.start()

    def _from_outside(self, call: Any) -> None:
        if self._loop is None:  # it has not begun, and nobody else touches it
            call()
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # its event loop is closed: it has ended
            return

    async def run(self, until: Until = "stopped") -> Worked:
        """Work until there is nothing to do, or until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._crew.hands.start(self._loop)
        begun = False
        try:
            begun = await self._patiently(lambda: asyncio.to_thread(self._heart.first))
        finally:
            if not begun:
                await surely(asyncio.to_thread(self._heart.stop))  # or its connection would stay
        if not begun:
            return self.worked
        self._heart.start()
        self._parts.bell.add(self.wake)
        helpers = [self._loop.create_task(work) for work in self._helpers()]
        for helper in helpers:
            helper.add_done_callback(self._hear_helper)
        try:
            if await self._patiently(self._begin):
                await self._taker.run(until)
            await self._drain()
        except BaseException:  # cancelled, or worse: nothing may run on without its lease
            await surely(self._abandon(process_ends=False))
            raise
        finally:
            await surely(self._end(helpers))
        if self._failed is not None:
            raise self._failed
        return self.worked

    def _hear_helper(self, helper: asyncio.Task[None]) -> None:
        """What goes on beside the work must not end in silence."""
        problem = None if helper.cancelled() else helper.exception()
        if problem is not None:
            logger.critical("a part of this worker failed, it ends: %r", problem)
            self._failed = problem
            self._stop()

    async def _abandon(self, patience: float = 0.0, *, process_ends: bool = True) -> None:
        """Give everything back, at once; the database has a while to take it.

        A thread cannot be stopped: where the process lives on, its job keeps the lease until that
        runs out by itself.
        """
        self._crew.release_unstarted()
        self._crew.interrupt(threads=process_ends)
        await self._crew.close(patience)

    async def _patiently(self, first: Callable[[], Awaitable[None]]) -> bool:
        """Begin although the database is busy or restarting just now, but not if it stays away.

        Returns whether it has begun: one that is told to stop before that owes nothing to anybody.
        """
        until = time.monotonic() + STARTING
        while True:
            try:
                await first()
            except (Held, StoreUnavailable) as problem:
                if self._taker.stopping.is_set():
                    return False
                if time.monotonic() > until:
                    raise
                logger.warning("the worker cannot begin yet, trying again: %s", problem)
                await self._taker.nap(LATEST)
            else:
                return True

    def _helpers(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on beside the work itself."""
        runner, pause = self._parts.store.awaited, self._settings.lease.total_seconds() / 2
        return [
            self._watch(),
            self._taker.listen(),
            rescuing(runner, self._identity, self.worked, self.wake, pause),
            pruning(runner),
            counting(runner, self.worked),
            watching_relays(runner, self._parts.jobs.outgoing.attendance),
            self._scheduler.run(),
        ]

    async def _begin(self) -> None:
        names = [handler.name for handler in self._parts.jobs.all()]
        runner = self._parts.store.awaited
        await runner.run_single(lambda session: unpark(session, names), wait=WAIT)
        await rescue_now(runner, self._identity, self.worked, self.wake)
        await self._scheduler.tick()

    async def _watch(self) -> None:
        """Look at the clock, and see to it that nothing waits for ever."""
        looked = time.monotonic()
        while True:
            await asyncio.sleep(WATCH)
            self._crew.look_at_the_clock()
            if self._crew.stuck >= self._settings.stuck and not self.worked.stuck:
                logger.critical("%d handlers hang: this process must start anew", self._crew.stuck)
                self.worked.stuck = True
                self._stop()
            if time.monotonic() - looked > ROOM:
                looked = time.monotonic()
                try:
                    await self._taker.make_room()
                except DulyError as problem:
                    logger.debug("rescued jobs could not be looked for: %s", problem)

    async def _drain(self) -> None:
        """Release what never began, let the rest finish, and release that when time is up."""
        crew = self._crew
        crew.release_unstarted()
        until = time.monotonic() + self._settings.grace.total_seconds()
        while crew.busy() and not self._hurried and time.monotonic() < until:
            self._taker.stirred.clear()
            await self._taker.nap(WATCH)
        if crew.busy():
            logger.warning("these did not end in time and are given back: %s", crew.at_work())
        # What is done must not be left leased because the database is busy or restarting.
        left = 0.0 if self._hurried else until - time.monotonic()
        await self._abandon(left + self._locked() / 1_000_000)

    async def _end(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        self._parts.bell.remove(self.wake)
        await end_surely(helpers)
        await asyncio.to_thread(self._heart.stop)
        runner = self._parts.store.awaited
        try:
            await self.worked.flush(runner)
            if self._crew.busy():
                return
            await runner.run_single(lambda session: leave(session, self._identity.id), wait=WAIT)
        except DulyError as problem:
            logger.warning("this worker could not say that it ends: %s", problem)
