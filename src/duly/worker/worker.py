"""The worker: start, work, drain and end, and the helpers that run beside it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from duly.core.clock import MICROSECOND
from duly.core.defaults import WAIT
from duly.core.errors import DulyError, InProgress, StoreUnavailable
from duly.jobs.lease import json_list
from duly.jobs.workers import WorkerIdentity, remove_worker, unpark
from duly.service.maintenance import flush_counters_periodically, prune_periodically, watch_relays
from duly.stores.shielding import cancel_until_done, shield_to_end
from duly.worker.executor import Executor
from duly.worker.fetcher import Fetcher
from duly.worker.heartbeat import Heartbeat
from duly.worker.rescue import JobRescuer
from duly.worker.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from duly.service.service_thread import Until
    from duly.worker.dependencies import WorkerDependencies
    from duly.worker.execution import Execution
    from duly.worker.settings import WorkerSettings
    from duly.worker.stats import Worked

logger = logging.getLogger("duly")
# Seconds for a database that is busy or restarting when a worker begins.
STARTING = 20.0


class Worker:
    """A worker in one event loop."""

    def __init__(self, dependencies: WorkerDependencies, settings: WorkerSettings) -> None:
        self._dependencies = dependencies
        self._settings = settings
        self._host = dependencies.host
        self._pauses = pauses = settings.pauses
        self._identity = WorkerIdentity(
            self._host.new_id(),
            socket.gethostname()[:200],
            os.getpid(),
            json_list(list(settings.queues)),
            settings.lease // MICROSECOND + self._longest_lock(),
        )
        self._executor = Executor(
            dependencies, settings.queues, self._wake_fetcher, batching=settings.batching
        )
        self._fetcher = Fetcher(dependencies, self._executor, self._identity, pauses)
        self._heartbeat = Heartbeat(
            dependencies,
            self._identity,
            self._executor.slots,
            on_lost=self._on_lost,
            fetching=lambda: self._fetcher.fetching,
        )
        self._scheduler = Scheduler(dependencies, pauses.schedules)
        self._executor.heartbeat_is_fresh = self._heartbeat.is_fresh
        self._stopping_now = False
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def worked(self) -> Worked:
        """What became of the jobs so far."""
        return self._executor.worked

    @worked.setter
    def worked(self, worked: Worked) -> None:
        """Use other counts, before the worker begins: a test kit records each run there."""
        self._executor.worked = worked

    def _longest_lock(self) -> int:
        """Microseconds for which a handler's transaction may delay a heartbeat."""
        if self._dependencies.many_writers:
            return 0
        locking = [
            one.timeout for one in self._dependencies.registries.jobs.all() if "tx" in one.wants
        ]
        return max(locking, default=0)

    def stop(self) -> None:
        """Fetch no more jobs, and end when running ones have ended. From any thread."""
        self._call_in_loop(self._stop)

    def stop_now(self) -> None:
        """Release what runs, and end. From any thread."""
        self._stopping_now = True
        self.stop()

    def wake(self) -> None:
        """Look for work now. From any thread."""
        if not self._fetcher.wake_event.is_set():
            self._call_in_loop(self._wake_fetcher)

    def _stop(self) -> None:
        self._fetcher.stopping.set()
        self._wake_fetcher()

    def _wake_fetcher(self) -> None:
        self._fetcher.wake_event.set()

    def _on_lost(self, runs: Sequence[Execution]) -> None:
        self._call_in_loop(lambda: self._abandon_lost(runs))

    def _abandon_lost(self, runs: Sequence[Execution]) -> None:
        self._executor.abandon_lost(runs)
        self._heartbeat.confirm()  # only now: what was lost must not start in between
        self._executor.start()

    def _call_in_loop(self, call: Any) -> None:
        if self._loop is None:  # it has not begun: no other thread uses it
            call()
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # its event loop is closed: it has ended
            return

    async def run(self, until: Until = "stopped") -> Worked:
        """Work until there is nothing to do, or until stopped."""
        self._loop = asyncio.get_running_loop()
        self._executor.thread_pool.start(self._loop)
        begun = False
        try:
            begun = await self._retry_until_started(
                lambda: asyncio.to_thread(self._heartbeat.announce)
            )
        finally:
            if not begun:
                await shield_to_end(
                    asyncio.to_thread(self._heartbeat.stop)
                )  # or its connection would stay
        if not begun:
            return self.worked
        self._heartbeat.start()
        self._dependencies.wakeup.add_listener("jobs", self.wake)
        helpers = [self._loop.create_task(work) for work in self._helpers()]
        for helper in helpers:
            helper.add_done_callback(self._on_helper_done)
        try:
            if await self._retry_until_started(self._prepare):
                await self._fetcher.run(until)
            await self._drain()
        except BaseException:  # cancelled, or worse: nothing may run on without its lease
            await shield_to_end(self._abandon(process_ends=False))
            raise
        finally:
            await shield_to_end(self._end(helpers))
        if self._failure is not None:
            raise self._failure
        return self.worked

    def _on_helper_done(self, helper: asyncio.Task[None]) -> None:
        """Stop the worker if a helper failed."""
        problem = None if helper.cancelled() else helper.exception()
        if problem is not None:
            logger.critical("a helper of this worker failed, the worker ends: %r", problem)
            self._failure = problem
            self._stop()

    async def _abandon(self, seconds: float = 0.0, *, process_ends: bool = True) -> None:
        """Release everything now; the database has so many seconds to take it.

        A thread cannot be stopped: where the process lives on, its job keeps the lease until that
        expires.
        """
        self._executor.release_unstarted()
        self._executor.interrupt_running(threads=process_ends)
        await self._executor.close(seconds)

    async def _retry_until_started(self, first: Callable[[], Awaitable[None]]) -> bool:
        """Retry while the database is busy or restarting, for a bounded time.

        Returns False if the worker was stopped before it began.
        """
        until = self._host.monotonic() + STARTING
        while True:
            try:
                await first()
            except (InProgress, StoreUnavailable) as problem:
                if self._fetcher.stopping.is_set():
                    return False
                if self._host.monotonic() > until:
                    raise
                logger.warning("the worker cannot start yet, trying again: %s", problem)
                await self._fetcher.sleep_until_woken(self._pauses.latest)
            else:
                return True

    def _helpers(self) -> list[Coroutine[Any, Any, None]]:
        """The helpers that run beside the work."""
        runner, pause = (
            self._dependencies.store.async_runner,
            self._settings.lease.total_seconds() / 2,
        )
        return [
            self._watch_clock(),
            self._look_for_rescued(),
            self._fetcher.listen(),
            self._rescuer().run(pause),
            prune_periodically(runner, self._host.random),
            flush_counters_periodically(runner, self.worked, self._pauses.counters),
            watch_relays(
                runner, self._dependencies.registries.outbox.relay_liveness, self._pauses.counters
            ),
            self._scheduler.run(),
        ]

    def _rescuer(self) -> JobRescuer:
        return JobRescuer(
            self._dependencies.store.async_runner,
            self._identity,
            self.worked,
            self.wake,
            self._pauses.rescue,
            self._host.random,
        )

    async def _prepare(self) -> None:
        names = [handler.name for handler in self._dependencies.registries.jobs.all()]
        runner = self._dependencies.store.async_runner
        await runner.run_autocommit(lambda session: unpark(session, names), wait=WAIT)
        await self._rescuer().rescue_now()
        await self._scheduler.tick()

    async def _watch_clock(self) -> None:
        """Enforce time limits. Nothing here may wait for the database, which a handler may hold."""
        while True:
            await asyncio.sleep(self._pauses.time_limits)
            self._executor.enforce_time_limits()
            if self._executor.stuck_threads >= self._settings.stuck and not self.worked.stuck:
                logger.critical(
                    "worker stuck, %d handlers hang: restart required", self._executor.stuck_threads
                )
                self.worked.stuck = True
                self._stop()

    async def _look_for_rescued(self) -> None:
        """Look for rescued jobs while every slot is taken."""
        while True:
            await asyncio.sleep(self._pauses.rescued)
            try:
                await self._fetcher.reserve_for_rescued()
            except DulyError as problem:
                logger.debug("rescued jobs could not be looked for: %s", problem)

    async def _drain(self) -> None:
        """Release what never started, let the rest finish, and release that when time is up."""
        executor = self._executor
        executor.release_unstarted()
        until = self._host.monotonic() + self._settings.grace.total_seconds()
        while executor.is_busy() and not self._stopping_now and self._host.monotonic() < until:
            self._fetcher.wake_event.clear()
            await self._fetcher.sleep_until_woken(self._pauses.time_limits)
        if executor.is_busy():
            logger.warning(
                "these jobs did not end in time and are released: %s", executor.describe_running()
            )
        # What is done must not be left leased because the database is busy or restarting.
        left = 0.0 if self._stopping_now else until - self._host.monotonic()
        await self._abandon(left + self._longest_lock() / 1_000_000)

    async def _end(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        self._dependencies.wakeup.remove_listener(self.wake)
        await cancel_until_done(helpers)
        await asyncio.to_thread(self._heartbeat.stop)
        runner = self._dependencies.store.async_runner
        try:
            await self.worked.flush(runner)
            if self._executor.is_busy():
                return
            await runner.run_autocommit(
                lambda session: remove_worker(session, self._identity.id), wait=WAIT
            )
        except DulyError as problem:
            logger.warning("this worker could not remove its row: %s", problem)
