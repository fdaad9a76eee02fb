"""The worker: takes jobs in batches, runs them, and has their ends written.

One task takes, one settles, one watches the time; handlers run in tasks and threads beside them.
What any of them decides about a job is decided once: the first to set ``run.ended`` has it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duly._kernel.clock import MICROSECOND
from duly._kernel.errors import DulyError
from duly._kernel.ids import new_id
from duly._kernel.options import WAIT
from duly.jobs.endings import LOST, RELEASED, interrupted, parked, timed_out
from duly.jobs.failures import plain
from duly.jobs.handlers import Handler
from duly.jobs.leases import Taking, names_of, take
from duly.jobs.workers import Identity, Outlook, idle, leave, outlook, unpark
from duly.runtime.desk import HELD_TOO_LONG, Desk
from duly.runtime.events import event_from, read_events
from duly.runtime.hands import Hands
from duly.runtime.heart import Heart
from duly.runtime.janitor import pruning, rescue_now, rescuing
from duly.runtime.performing import perform
from duly.runtime.runs import Run
from duly.runtime.settler import Settler
from duly.runtime.tally import Worked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly._kernel.session import Row, Session
    from duly.edge.routes import Route
    from duly.jobs.bell import Bell
    from duly.jobs.endings import Ended
    from duly.jobs.leases import Leased
    from duly.jobs.registry import Registry
    from duly.runtime.performing import Place
    from duly.runtime.settings import Settings
    from duly.stores.base import Store

logger = logging.getLogger("duly")
Until = Literal["idle", "stopped"]
# Seconds between two looks where nothing wakes the worker: short at first, longer while idle.
SOONEST, LATEST = 0.02, 0.5
# The same where notifications come through: polling is only the net below them.
LISTENING = 1.0
# Seconds between two looks at the clock for handlers that take too long.
WATCH = 0.1
# Seconds that a cancelled handler has to end before its slot is used again.
ENDING = 5.0
# Seconds between two looks for jobs that come due, and for rescued ones, while there is other work.
STAGE = 0.25
# Beside its timeout, a job may be held, and its end may wait for a database that is away.
SLACK = 5 * 60 * 1_000_000


class Parts(NamedTuple):
    """What a worker works with."""

    store: Store
    jobs: Registry
    routes: Mapping[str, Route]
    bell: Bell
    blocking: Place
    awaited: Place
    # How many transactions of handlers may be open, by colour.
    transactions: Mapping[str, int]


class Worker:
    """One process's share of the work, in one event loop."""

    def __init__(self, parts: Parts, settings: Settings) -> None:
        self._parts = parts
        self._settings = settings
        self._runner = parts.store.awaited
        self._desk = Desk(settings.queues)
        self.worked = Worked()
        self._settler = Settler(self._runner, self._settled)
        self._hands = Hands(parts.blocking, self._through)
        self._stirred = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._identity = Identity(
            new_id(), socket.gethostname()[:200], os.getpid(), names_of(list(settings.queues)),
            settings.lease // MICROSECOND + self._locked(),
        )  # fmt: skip
        self._heart = Heart(
            parts.store,
            self._identity,
            self._desk,
            lost=self._hear_lost,
            taking=lambda: self._taking,
        )
        longest = max((handler.timeout for handler in parts.jobs.all()), default=0)
        self._hold = longest + SLACK
        self._taking = False
        self._listening = False
        self._idle = False
        self._staged = 0.0
        self._pause = SOONEST
        self._unknown: set[str] = set()
        # Threads whose handlers were given up, and have not come back.
        self._stuck = 0
        self._revoking: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Transactions of handlers that are open, by colour, and runs that wait for one.
        self._transactions: Counter[str] = Counter()
        self._patient: list[Run] = []

    def _locked(self) -> int:
        """How long a transaction of a handler may keep a heartbeat from being written."""
        if self._parts.store.capabilities.concurrent_writers:
            return 0
        locking = [one.timeout for one in self._parts.jobs.all() if "tx" in one.wants]
        return max(locking, default=0)

    def stop(self) -> None:
        """Take no more jobs, and end when those that run are through. From any thread."""
        self._from_outside(self._stopping.set)

    def stop_now(self) -> None:
        """Give back what runs, and end. From any thread."""
        self._from_outside(self._hurried.set)
        self.stop()

    def wake(self) -> None:
        """Look for work now. From any thread."""
        self._from_outside(self._stirred.set)

    def _from_outside(self, call: Any) -> None:
        if self._loop is None:
            call()
            return

        def tell() -> None:
            call()
            self._stirred.set()

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # its event loop is closed: it has ended
            return

    async def run(self, until: Until = "stopped") -> Worked:
        """Work until there is nothing to do, or until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._hands.start(self._loop)
        await asyncio.to_thread(self._heart.first)
        self._heart.start()
        self._parts.bell.add(self.wake)
        helpers = [
            self._loop.create_task(work)
            for work in (
                self._watch(),
                self._listen(),
                rescuing(
                    self._runner, self.worked, self.wake, self._settings.lease.total_seconds() / 2
                ),
                pruning(self._runner),
            )
        ]
        try:
            await self._begin()
            await self._fetch(until)
            await self._drain()
        finally:
            await self._end(helpers)
        return self.worked

    async def _begin(self) -> None:
        names = [handler.name for handler in self._parts.jobs.all()]
        await self._runner.run_single(lambda session: unpark(session, names), wait=WAIT)
        await rescue_now(self._runner, self.worked, self.wake)

    async def _end(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        self._parts.bell.remove(self.wake)
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        self._hands.close()
        await asyncio.to_thread(self._heart.stop)
        try:
            await self._runner.run_single(
                lambda session: leave(session, self._identity.id), wait=WAIT
            )
        except DulyError as problem:
            logger.warning("this worker could not say that it ends: %s", problem)

    # Taking jobs

    async def _fetch(self, until: Until) -> None:
        """Take jobs for as long as there is room and work."""
        while not self._stopping.is_set():
            self._stirred.clear()
            wants = self._desk.wants()
            try:
                taken = await self._take(wants) if wants else 0
            except DulyError as problem:
                logger.warning("no jobs could be taken: %s", problem)
                await self._nap(LATEST)
                continue
            self._start()
            if taken:
                self._pause = SOONEST
                if taken >= sum(want.fresh for want in wants) > 1:
                    await self._say_idle(wanted=False)
                continue
            if not wants:
                await self._nap(STAGE)
            elif await self._rest(until):
                return

    async def _take(self, wants: Sequence[Any]) -> int:
        """One round: lease what there is, and put it on the desk."""
        if not self._parts.store.capabilities.concurrent_writers:
            # A look costs SQLite nothing; taking would make every other process wait.
            seen = await self._look()
            if not seen.due and (seen.next_in is None or seen.next_in > 0):
                return 0
        stage = time.monotonic() - self._staged > STAGE
        if stage:
            self._staged = time.monotonic()
        asked = Taking(self._identity.id, self._hold, wants, stage)
        run = (
            self._runner.run_single
            if self._parts.store.capabilities.concurrent_writers
            else self._runner.run
        )
        self._taking = True
        try:
            leases, events = await run(lambda session: taken_with_events(session, asked), wait=WAIT)
            for leased in leases:
                self._receive(leased, events)
        finally:
            self._taking = False
        return len(leases)

    def _receive(self, leased: Leased, events: Mapping[str, Row]) -> None:
        row = None if leased.event is None else events.get(leased.event)
        source = None if row is None else row["source"]
        handler = self._parts.jobs.find(source, leased.name)
        if handler is None or (leased.event is not None and row is None):
            self._park(leased)
            return
        event = None if row is None else event_from(row, self._parts.routes)
        self._desk.put(Run(leased, handler, event))

    def _park(self, leased: Leased) -> None:
        """Nobody here knows the handler: another process may, or the next deploy."""
        if leased.name not in self._unknown:
            self._unknown.add(leased.name)
            logger.warning(
                "there is no handler %s in this process: its jobs are parked until a worker "
                "starts that has one",
                leased.name,
            )
        self._settler.add(Run(leased, NOBODY, None), parked(random.random()))  # noqa: S311

    async def _look(self) -> Outlook:
        queues = list(self._settings.queues)
        return await self._runner.run_single(lambda session: outlook(session, queues), wait=WAIT)

    async def _rest(self, until: Until) -> bool:
        """Nothing could be taken: wait for a sign of work; whether the worker may end."""
        try:
            await self._say_idle(wanted=True)
            seen = await self._look()
        except DulyError as problem:
            logger.warning("the database could not be asked for work: %s", problem)
            await self._nap(LATEST)
            return False
        if seen.due:
            await self._nap(SOONEST)  # others have it locked, or there is no room for it
            return False
        if seen.next_in is not None and seen.next_in <= 0:
            self._staged = 0.0  # a job has come due since the last look
            await self._nap(SOONEST)
            return False
        if until == "idle" and not self._desk and not self._stirred.is_set():
            return True
        pause = LISTENING if self._listening else self._pause
        self._pause = min(2 * self._pause, LATEST)
        await self._nap(pause if seen.next_in is None else min(pause, seen.next_in / 1_000_000))
        return False

    async def _nap(self, seconds: float) -> None:
        """Wait, but not longer than until something stirs."""
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            return

    async def _say_idle(self, *, wanted: bool) -> None:
        """Ask others to wake this worker, where they can."""
        if self._listening and self._idle != wanted:
            self._idle = wanted
            worker = self._identity.id
            await self._runner.run_single(
                lambda session: idle(session, worker, wanted=wanted), wait=WAIT
            )

    async def _listen(self) -> None:
        def heard() -> None:
            self._listening = True
            self._stirred.set()

        if not await self._parts.store.listen(heard):
            self._listening = False

    # Running them

    def _start(self) -> None:
        """Begin what can run now."""
        for run in [*self._patient, *self._desk.startable()]:
            lane = self._lane(run)
            if lane is not None and self._transactions[lane] >= self._parts.transactions[lane]:
                if run not in self._patient:
                    self._patient.append(run)
                continue
            if run in self._patient:
                self._patient.remove(run)
            if lane is not None:
                self._transactions[lane] += 1
            self._launch(run)

    def _lane(self, run: Run) -> str | None:
        """Among which transactions it counts: SQLite has one for all."""
        if "tx" not in run.handler.wants:
            return None
        both = self._parts.store.capabilities.concurrent_writers
        return run.handler.colour if both else "any"

    def _launch(self, run: Run) -> None:
        run.started = time.monotonic()
        if run.handler.colour == "sync":
            self._hands.give(run)
        else:
            run.task = asyncio.get_running_loop().create_task(self._run_awaited(run))

    async def _run_awaited(self, run: Run) -> None:
        try:
            ended = await perform(run, self._parts.awaited)
        except asyncio.CancelledError:
            if run.ended is None:  # nobody here did it: the event loop is ending
                raise
            self._count_back(run)
            return
        self._through(run, ended)

    def _through(self, run: Run, ended: Ended) -> None:
        """A handler is through, on whatever it ran."""
        if run.ended is not None:  # it was given up before
            self._count_back(run)
            return
        self._decide(run, ended)

    def _count_back(self, run: Run) -> None:
        if run.handler.colour == "sync":
            self._stuck -= 1

    def _decide(self, run: Run, ended: Ended) -> None:
        """How a run ended; decided once."""
        run.ended = ended
        if ended.kind in ("settled", "lost"):
            self._settled(run, ended, held=True)
        else:
            self._settler.add(run, ended)

    def _settled(self, run: Run, ended: Ended, held: bool) -> None:
        """The end of a run is committed, or there was nothing to write."""
        self._desk.clear(run)
        lane = self._lane(run)
        if lane is not None and run.started is not None:
            self._transactions[lane] -= 1
        self._count(run, ended, held=held)
        self._stirred.set()
        self._start()

    def _count(self, run: Run, ended: Ended, *, held: bool) -> None:
        leased = run.leased
        if ended.kind == "lost" or not held:
            self.worked.lost += 1
            logger.warning(
                "the lease on job %s (%s) was lost: what this run wrote is rolled back",
                leased.id,
                leased.name,
            )
        elif ended.kind in ("done", "settled"):
            self.worked.done += 1
        elif ended.kind == "stale":
            self.worked.stale += 1
        elif ended.kind == "dead":
            self.worked.dead += 1
            logger.error(
                "job %s (%s) is dead after %s attempts",
                leased.id,
                leased.name,
                leased.attempts + ended.burnt,
            )
        else:
            self.worked.again += 1

    # Ending them early

    async def _watch(self) -> None:
        """Look at the clock for handlers that take too long, and for jobs held too long."""
        looked = time.monotonic()
        while True:
            await asyncio.sleep(WATCH)
            now = time.monotonic()
            for run in self._desk.running():
                if run.overdue(now):
                    at = self._parts.awaited.circumstances()
                    logger.error("handler %s ran longer than its timeout", run.handler.name)
                    self._give_up(run, timed_out(run.leased, run.handler, at))
            for run in self._desk.take_held(HELD_TOO_LONG):
                self._release(run)
            if now - looked > LISTENING:
                looked = now
                await self._make_room()
            if self._stuck >= self._settings.stuck and not self._stopping.is_set():
                logger.critical("%d handlers hang: this process must start anew", self._stuck)
                self.worked.stuck = True
                self._stopping.set()
                self._stirred.set()

    async def _make_room(self) -> None:
        """Rescued jobs are never held, so a busy worker keeps a slot free for one that is due."""
        try:
            if self._desk.full() or any(queue.reserved for queue in self._desk.queues.values()):
                self._desk.reserve(wanted=(await self._look()).rescued)
        except DulyError as problem:
            logger.debug("rescued jobs could not be looked for: %s", problem)

    def _release(self, run: Run) -> None:
        """It never began: somebody else may have it at once."""
        run.ended = RELEASED
        self._settler.add(run, RELEASED)

    def _give_up(self, run: Run, ended: Ended) -> None:
        """End a run that does not end by itself; its lease is settled, or lost already."""
        self._decide(run, ended)
        if run.task is not None:
            run.task.cancel()
            return
        self._stuck += 1
        revoke = run.revoke
        if revoke is not None:
            revoking = asyncio.get_running_loop().run_in_executor(None, revoke)
            self._revoking.add(revoking)
            revoking.add_done_callback(self._revoking.discard)

    def _hear_lost(self, runs: Sequence[Run]) -> None:
        """From the heart's thread: somebody else has these leases."""

        def give_up() -> None:
            for run in runs:
                if run.ended is None and run in self._desk:
                    if run.started is None:
                        self._forget(run)
                    else:
                        self._give_up(run, LOST)

        if self._loop is not None:
            self._loop.call_soon_threadsafe(give_up)

    def _forget(self, run: Run) -> None:
        self._desk.drop(run)
        if run in self._patient:
            self._patient.remove(run)

    # Ending the worker

    async def _drain(self) -> None:
        """Release what never began, let the rest finish, and release that when time is up."""
        for run in [*self._desk.take_held(), *self._patient]:
            self._forget(run)
            self._release(run)
        try:
            async with asyncio.timeout(self._settings.grace.total_seconds()):
                while self._busy() and not self._hurried.is_set():
                    self._stirred.clear()
                    await self._nap(WATCH)
        except TimeoutError:
            logger.warning(
                "%d jobs did not end in time and are given back", len(self._desk.running())
            )
        for run in self._desk.running():
            if run.ended is None:
                why = plain(
                    "its worker was stopped while it ran", run.leased.attempts + 1, "duly.Stopped"
                )
                self._give_up(run, interrupted(run.leased, why, random.random()))  # noqa: S311
        await self._settler.flushed()
        tasks = [run.task for run in self._desk.running() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING)

    def _busy(self) -> bool:
        return any(run.ended is None for run in self._desk.running())


# Stands for the handler of a job that nobody here knows.
NOBODY = Handler("nobody", print, frozenset(), "sync")


async def taken_with_events(session: Session, asked: Taking) -> tuple[list[Leased], dict[str, Row]]:
    """Lease jobs, and read the events that they are about."""
    leases = await take(session, asked)
    return leases, await read_events(session, leases)
