"""Getting work: what to ask the database for, how often, and what wakes a worker that has none."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError, Held
from duly.inbox.read import event_from, read_events
from duly.jobs.handlers import Handler
from duly.jobs.lease import Taking, take
from duly.jobs.outcome import parked
from duly.jobs.workers import Outlook, idle, outlook
from duly.worker.execution import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.core.session import Row, Session
    from duly.jobs.lease import Leased, Want
    from duly.jobs.workers import Identity
    from duly.service.service_thread import Until
    from duly.worker.dependencies import Parts
    from duly.worker.executor import Crew

logger = logging.getLogger("duly")
# Seconds between two looks where nothing wakes the worker: short at first, longer while idle.
SOONEST, LATEST = 0.02, 0.5
# The same where notifications come through: polling is only the net below them.
LISTENING = 1.0
# Seconds between two looks for jobs that come due, while there is other work.
STAGE = 0.25
# Not zero: that is when the machine was started, which may be a moment ago.
LONG_AGO = float("-inf")
# Beside its timeout, a job may be held, and its end may wait for a database that is away.
SLACK = 5 * 60 * 1_000_000
# Stands for the handler of a job that nobody here knows.
NOBODY = Handler("nobody", print, frozenset(), "sync")


class Taker:
    """Takes jobs for as long as there is room and work."""

    def __init__(self, parts: Parts, crew: Crew, worker: Identity) -> None:
        self._parts = parts
        self._crew = crew
        self._worker = worker
        self._runner = parts.store.awaited
        self.stirred = asyncio.Event()
        self.stopping = asyncio.Event()
        # A batch is on its way: what the database has leased is not on the desk yet.
        self.taking = False
        longest = max((handler.timeout for handler in parts.jobs.all()), default=0)
        self._hold = longest + SLACK
        self._listening = False
        self._idle = False
        # A notification came: something fresh is there, and whoever enqueued it may be waiting.
        self._rung = False
        self._put_off = False
        self._staged = LONG_AGO
        self._pause = SOONEST
        self._unknown: set[str] = set()

    async def run(self, until: Until) -> None:
        """Take jobs until told to stop, or until there are none."""
        while not self.stopping.is_set():
            self.stirred.clear()
            if not self._crew.trusted():
                # Too long since the last beat: others would take back at once what it takes, and
                # count that as a rescue.
                await self.nap(LATEST)
                continue
            wants = self._crew.desk.wants()
            try:
                taken = await self._take(wants) if wants else 0
                if taken:
                    await self._go_on(taken, wants)
                elif not wants:
                    await self.nap(STAGE)
                elif await self._rest(until, wants):
                    return
            except DulyError as problem:
                # Held: another process is writing to SQLite, which is how it works.
                told = logger.debug if isinstance(problem, Held) else logger.warning
                told("no jobs could be taken, trying again: %s", problem)
                await self.nap(LATEST)

    async def _go_on(self, taken: int, wants: Sequence[Want]) -> None:
        self._crew.start()
        self._pause = SOONEST
        if taken >= sum(want.fresh for want in wants) > 1:
            await self._say_idle(wanted=False)

    async def _take(self, wants: Sequence[Want]) -> int:
        """One round: lease what there is, and put it on the desk."""
        if not self._parts.many_writers:
            # A look costs SQLite nothing; taking would make every other process wait.
            seen = await self._look([want.queue for want in wants])
            if not seen.due and (seen.next_in is None or seen.next_in > 0):
                return 0
        asked = Taking(self._worker.id, self._hold, wants, self._stages(wants))
        run = self._runner.run_single if self._parts.many_writers else self._runner.run
        self.taking = True
        try:
            leases, events = await run(lambda session: taken_with_events(session, asked), wait=WAIT)
            kept_in_vain = self._crew.desk.took(wants, leases, staged=asked.stage)
            for leased in leases:
                self._receive(leased, events)
            if kept_in_vain:
                self._crew.start()
        finally:
            self.taking = False
        return len(leases)

    def _stages(self, wants: Sequence[Want]) -> bool:
        """Whether to look first for jobs that have come due, and for those that came back.

        The round after a notification is for the job that it told of; the next one looks, however
        many are told of meanwhile.
        """
        rung, self._rung = self._rung, False
        urgent = self._crew.desk.clearing.wanted
        more = self._crew.desk.expects(wants)
        if not urgent and not more and time.monotonic() - self._staged <= STAGE:
            return False
        self._put_off = rung and not self._put_off and not urgent
        if not self._put_off:
            self._staged = time.monotonic()
        return not self._put_off

    def _receive(self, leased: Leased, events: Mapping[str, Row]) -> None:
        row = None if leased.event is None else events.get(leased.event)
        handler = self._parts.jobs.find(None if row is None else row["source"], leased.name)
        if handler is None or (leased.event is not None and row is None):
            self._park(leased)
            return
        run = Run(leased, handler, None)
        try:
            run.event = None if row is None else event_from(row, self._parts.routes)
        except Exception as problem:
            self._crew.refuse(run, problem)
            return
        if not self._crew.replace(run):
            self._crew.desk.put(run)

    def _park(self, leased: Leased) -> None:
        """Nobody here knows the handler: another process may, or the next deploy."""
        if leased.name not in self._unknown:
            self._unknown.add(leased.name)
            logger.warning(
                "there is no handler %s in this process: its jobs are parked until a worker "
                "starts that has one",
                leased.name,
            )
        run = Run(leased, NOBODY, None)
        self._crew.settle_unstarted(run, parked(random.random()))  # noqa: S311

    async def _look(self, queues: Sequence[str]) -> Outlook:
        """What there is to take in some queues, without taking it."""
        return await self._runner.run_single(lambda session: outlook(session, queues), wait=WAIT)

    async def _rest(self, until: Until, wants: Sequence[Want]) -> bool:
        """Nothing could be taken: wait for a sign of work; whether the worker may end."""
        await self._say_idle(wanted=True)
        seen = await self._look([want.queue for want in wants])  # those that have room
        pause, self._pause = self._pause, min(2 * self._pause, LATEST)
        soon = seen.next_in is not None and seen.next_in <= 0
        if seen.due or soon:
            # It has come due since the last look, or others have it, or it must not run just now.
            self._staged = LONG_AGO if soon else self._staged
            await self.nap(pause)
            return False
        if until == "idle" and not self._crew.desk and not self.stirred.is_set():
            return True
        pause = LISTENING if self._listening else pause
        await self.nap(pause if seen.next_in is None else min(pause, seen.next_in / 1_000_000))
        return False

    async def nap(self, seconds: float) -> None:
        """Wait, but not longer than until something stirs."""
        try:
            async with asyncio.timeout(seconds):
                await self.stirred.wait()
        except TimeoutError:
            return

    async def make_room(self) -> None:
        """Rescued jobs are never held, so a busy worker keeps a slot free for one that is due."""
        desk = self._crew.desk
        most = 0
        for name in desk.queues if desk else ():
            seen = await self._look([name])
            desk.queues[name].keep_room(seen.rescued)
            most = max(most, seen.rescued)
        if desk.clearing.see(most):
            self._crew.release_unstarted()

    async def _say_idle(self, *, wanted: bool) -> None:
        """Ask others to wake this worker, where they can."""
        if self._listening and self._idle != wanted:
            self._idle = wanted
            worker = self._worker.id
            await self._runner.run_single(
                lambda session: idle(session, worker, wanted=wanted), wait=WAIT
            )

    async def listen(self) -> None:
        """Hear of new jobs, where the database can tell."""

        def heard() -> None:
            self._listening = self._rung = True
            self.stirred.set()

        if not await self._parts.store.listen(heard):
            self._listening = False


async def taken_with_events(session: Session, asked: Taking) -> tuple[list[Leased], dict[str, Row]]:
    """Lease jobs, and read the events that they are about."""
    leases = await take(session, asked)
    return leases, await read_events(session, leases)
