"""Fetching jobs: what to ask the database for, how often, and what wakes an idle worker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError, InProgress
from duly.inbox.read import event_from, take_with_events
from duly.jobs.handlers import Handler
from duly.jobs.lease import FetchRequest
from duly.jobs.outcome import outcome_of_unknown_handler
from duly.jobs.workers import QueueOutlook, peek_queues, set_idle
from duly.worker.execution import Execution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.core.session import Row
    from duly.jobs.lease import LeasedJob, QueueDemand
    from duly.jobs.workers import WorkerIdentity
    from duly.service.service_thread import Until
    from duly.worker.dependencies import WorkerDependencies
    from duly.worker.executor import Executor
    from duly.worker.settings import WorkerPauses

logger = logging.getLogger("duly")
# Seconds between two looks where notifications come through: polling is only the net below them.
LISTENING = 1.0
# Seconds between two looks for jobs that come due, while there is other work.
STAGE = 0.25
# Not zero: that is when the machine was started, which may be a moment ago.
LONG_AGO = float("-inf")
# Beside its timeout: a job may be prefetched, and its end may wait for the database.
SLACK = 5 * 60 * 1_000_000
# Stands for the handler of a job that this process does not know.
UNKNOWN_HANDLER = Handler("unknown", print, frozenset(), "sync")


class Fetcher:
    """Takes jobs for as long as there is room and work."""

    def __init__(
        self,
        dependencies: WorkerDependencies,
        executor: Executor,
        worker: WorkerIdentity,
        pauses: WorkerPauses,
    ) -> None:
        self._dependencies = dependencies
        self._executor = executor
        self._host = dependencies.host
        self._pauses = pauses
        self._worker = worker
        self._runner = dependencies.store.async_runner
        self._many_writers = dependencies.many_writers
        self.wake_event = asyncio.Event()
        self.stopping = asyncio.Event()
        # True while a batch is on its way: what the database has leased has no slot yet.
        self.fetching = False
        # A job of a batch may run a second time under its lease, alone.
        longest = max(
            (one.timeout * (2 if one.many else 1) for one in dependencies.registries.jobs.all()),
            default=0,
        )
        self._hold = longest + SLACK
        self._listening = False
        self._idle = False
        # A notification came: a new job is there, and its caller may be waiting.
        self._notified = False
        self._stage_postponed = False
        self._last_staged = LONG_AGO
        self._pause = self._pauses.soonest
        self._unknown: set[str] = set()

    async def run(self, until: Until) -> None:
        """Fetch jobs until stopped, or until there are none."""
        while not self.stopping.is_set():
            self.wake_event.clear()
            if not self._executor.heartbeat_is_fresh():
                # Too long since the last beat: other workers would rescue at once what it fetches.
                await self.sleep_until_woken(self._pauses.latest)
                continue
            wants = self._executor.slots.wants()
            try:
                taken = await self._fetch_batch(wants) if wants else 0
                if taken:
                    await self._start_fetched(taken, wants)
                elif not wants:
                    await self.sleep_until_woken(STAGE)
                elif await self._wait_for_work(until, wants):
                    return
            except DulyError as problem:
                # InProgress: another process is writing to SQLite, which is how it works.
                log = logger.debug if isinstance(problem, InProgress) else logger.warning
                log("no jobs could be fetched, trying again: %s", problem)
                await self.sleep_until_woken(self._pauses.latest)

    async def _start_fetched(self, taken: int, wants: Sequence[QueueDemand]) -> None:
        self._executor.start()
        self._pause = self._pauses.soonest
        if taken >= sum(want.fresh for want in wants) > 1:
            await self._announce_idle(wanted=False)

    async def _fetch_batch(self, wants: Sequence[QueueDemand]) -> int:
        """Lease what there is, and put it into slots; return how many."""
        if not self._many_writers:
            # A look costs SQLite nothing; leasing would make every other process wait.
            seen = await self._peek([want.queue for want in wants])
            if not seen.due and (seen.next_in is None or seen.next_in > 0):
                return 0
        asked = FetchRequest(self._worker.id, self._hold, wants, self._should_stage(wants))
        run = self._runner.run_autocommit if self._many_writers else self._runner.run
        self.fetching = True
        try:
            leases, events = await run(lambda session: take_with_events(session, asked), wait=WAIT)
            kept_in_vain = self._executor.slots.record_batch(wants, leases, staged=asked.stage)
            for leased in leases:
                self._accept_lease(leased, events)
            if kept_in_vain:
                self._executor.start()
        finally:
            self.fetching = False
        return len(leases)

    def _should_stage(self, wants: Sequence[QueueDemand]) -> bool:
        """Whether to look first for jobs that have come due, and for rescued ones.

        The round after a notification is for the new job; the next one looks, however many
        notifications come meanwhile.
        """
        notified, self._notified = self._notified, False
        slots = self._executor.slots
        urgent = slots.quarantine.is_due
        recent = self._host.monotonic() - self._last_staged <= STAGE
        if recent and not urgent and not slots.expects_rescued(wants):
            return False
        self._stage_postponed = notified and not self._stage_postponed and not urgent
        if not self._stage_postponed:
            self._last_staged = self._host.monotonic()
        return not self._stage_postponed

    def _accept_lease(self, leased: LeasedJob, events: Mapping[str, Row]) -> None:
        row = None if leased.event is None else events.get(leased.event)
        handler = self._dependencies.registries.jobs.find(
            None if row is None else row["source"], leased.name
        )
        if handler is None or (leased.event is not None and row is None):
            self._park(leased)
            return
        try:
            event = None if row is None else event_from(row, self._dependencies.routes)
        except Exception as problem:
            self._executor.refuse(Execution(leased, handler, None, self._host), problem)
            return
        run = Execution(leased, handler, event, self._host)
        if not self._executor.replace_earlier_run(run):
            self._executor.slots.put(run)

    def _park(self, leased: LeasedJob) -> None:
        """Release a job whose handler only another process, or the next deploy, knows."""
        if leased.name not in self._unknown:
            self._unknown.add(leased.name)
            logger.warning(
                "there is no handler %s in this process: its jobs are parked until a worker "
                "starts that has one",
                leased.name,
            )
        run = Execution(leased, UNKNOWN_HANDLER, None, self._host)
        draw = self._host.random.random()
        self._executor.settle_unstarted(run, outcome_of_unknown_handler(draw))

    async def _peek(self, queues: Sequence[str]) -> QueueOutlook:
        """What there is to fetch in some queues, without leasing it."""
        return await self._runner.run_autocommit(
            lambda session: peek_queues(session, queues), wait=WAIT
        )

    async def _wait_for_work(self, until: Until, wants: Sequence[QueueDemand]) -> bool:
        """Sleep until there may be work; return True if the worker may end."""
        await self._announce_idle(wanted=True)
        seen = await self._peek([want.queue for want in wants])  # those that have room
        pause, self._pause = self._pause, min(2 * self._pause, self._pauses.latest)
        soon = seen.next_in is not None and seen.next_in <= 0
        if seen.due or soon:
            # It came due since the last look, another worker has it, or it must not run now.
            self._last_staged = LONG_AGO if soon else self._last_staged
            await self.sleep_until_woken(pause)
            return False
        if until == "idle" and not self._executor.slots and not self.wake_event.is_set():
            return True
        pause = LISTENING if self._listening else pause
        await self.sleep_until_woken(
            pause if seen.next_in is None else min(pause, seen.next_in / 1_000_000)
        )
        return False

    async def sleep_until_woken(self, seconds: float) -> None:
        """Sleep until woken or ``seconds`` pass."""
        try:
            async with asyncio.timeout(seconds):
                await self.wake_event.wait()
        except TimeoutError:
            return

    async def reserve_for_rescued(self) -> None:
        """Keep a slot free for a rescued job that is due: those are never prefetched."""
        slots = self._executor.slots
        if not slots:  # the next fetch finds it; until then the quarantine must not forget it
            return
        most = 0
        for name in slots.queues:
            seen = await self._peek([name])
            slots.queues[name].reserve_for_due(seen.rescued)
            most = max(most, seen.rescued)
        if slots.quarantine.observe_due(most):
            self._executor.release_unstarted()

    async def _announce_idle(self, *, wanted: bool) -> None:
        """Record whether this worker wants notifications, where the database sends them."""
        if self._listening and self._idle != wanted:
            self._idle = wanted
            worker = self._worker.id
            await self._runner.run_autocommit(
                lambda session: set_idle(session, worker, wanted=wanted), wait=WAIT
            )

    async def listen(self) -> None:
        """Listen for notifications of new jobs, where the database sends them."""

        def on_notification() -> None:
            self._listening = self._notified = True
            self.wake_event.set()

        if not await self._dependencies.store.listen(on_notification):
            self._listening = False
