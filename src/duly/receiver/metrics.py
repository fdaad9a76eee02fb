"""The receiver's metrics: counters and notes flushed apart, and warnings logged once."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.core.onestep import finish
from duly.inbox.counters import PendingCounters, flush
from duly.inbox.new_event import Status
from duly.jobs.statements import WORKERS_ALIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.session import Runner, Session
    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.inbox.route import Route
    from duly.outbox.relay_liveness import RelayLiveness
    from duly.receiver.responses import Reply

logger = logging.getLogger("duly")
NO_WORKER = (
    "events are being accepted and no worker is alive: their jobs are safe in the database and "
    "wait for one. Run `duly worker shop:app`, or serve the app with `duly serve shop:app`, which "
    "has a worker in it (shop:app names your Duly)"
)
# Seconds between two flushes: what a killed process may forget to have counted.
PAUSE = 2.0
# A worker says that it lives every few seconds; one unseen for so long does not.
ALIVE = 60 * 1_000_000


class Metrics:
    """Counts the outcomes of this process and writes the sums every two seconds."""

    def __init__(
        self,
        sync_runner: Runner,
        async_runner: Runner,
        attendance: RelayLiveness,
        pause: float | None = None,
    ) -> None:
        self._given_pause = pause
        self._attendance = attendance
        self._sync_runner = sync_runner
        self._async_runner = async_runner
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._counters = PendingCounters()
        self._due: asyncio.TimerHandle | threading.Timer | None = None
        # Whose timer that is: it dies with its event loop, and stays behind in a fork.
        self._owner: object = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushing: threading.Thread | None = None
        self._warned: set[str] = set()
        # Whether jobs were enqueued since no worker was looked for; None once one was.
        self._enqueued: bool | None = False
        # Whether this process has run a worker of its own.
        self.has_own_worker = False

    @property
    def _pause(self) -> float:
        """Seconds between two flushes."""
        return PAUSE if self._given_pause is None else self._given_pause

    def count_refusal(self, route: Route, reply: Reply) -> None:
        """Count a delivery that was refused; nothing else is written of it."""
        if self._process != os.getpid():
            self._reset_after_fork()
        with self._lock:
            self._counters.count(route.name, reply.said)

    def count_delivery(
        self, route: Route, events: Sequence[NewEvent], outcomes: Sequence[EventOutcome], now: float
    ) -> None:
        """Count the outcomes of a delivery."""
        if self._process != os.getpid():
            self._reset_after_fork()
        with self._lock:
            for event, outcome in zip(events, outcomes, strict=True):
                said = "body_differs" if outcome.body_differs else outcome.status.value
                self._counters.counts[event.scope, said] += 1
                if outcome.status is Status.DUPLICATE:
                    self._counters.note(event, said, int(now * 1_000_000))
                elif event.jobs and outcome.status is Status.ACCEPTED:
                    self._enqueued = self._enqueued is not None
        if outcomes[0].status is not Status.ACCEPTED and not route.handlers:
            self._warn_once(
                f"source {route.name} has no handlers: its events are recorded and nothing else. "
                f'Add one with @app.on("{route.name}")'
            )

    def flush_soon(self) -> None:
        """Have the sums written by the running event loop."""
        loop = asyncio.get_running_loop()
        if self._due is None or self._owner is not loop:
            self._due, self._owner = loop.call_later(self._pause, self._begin_flush, loop), loop

    def flush_soon_blocking(self) -> None:
        """Have the sums written by a thread."""
        if self._due is None or self._owner != os.getpid():
            self._due, self._owner = threading.Timer(self._pause, self._flush_on_timer), os.getpid()
            self._due.daemon = True
            self._due.start()

    def _reset_after_fork(self) -> None:
        """Count from nothing in a forked child: its parent writes what was counted before."""
        self._process, self._lock = os.getpid(), threading.Lock()
        self._counters = PendingCounters()
        self._due = self._owner = None

    def _warn_once(self, warning: str) -> None:
        """Warn once in the life of the process."""
        if warning not in self._warned:
            self._warned.add(warning)
            logger.warning(warning)

    def note_staged(self) -> None:
        """A message was staged by this process: look soon whether a relay is there to send it."""
        if not self._attendance.wants_check():
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.flush_soon_blocking()
        else:
            self.flush_soon()

    def _begin_flush(self, loop: asyncio.AbstractEventLoop) -> None:
        task = loop.create_task(self._flush_and_look())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Write everything, also what is being written just now."""
        loop = asyncio.get_running_loop()
        under_way = [task for task in self._tasks if task.get_loop() is loop]
        await asyncio.gather(*under_way)
        await self.flush_awaited(closing=True)

    def close(self) -> None:
        """The same on a thread."""
        under_way = self._flushing
        if under_way is not None and under_way.is_alive():
            under_way.join()
        self.flush_blocking(closing=True)

    async def _flush_and_look(self) -> None:
        """What the event loop's timer does."""
        await self.flush_awaited()
        if self._attendance.is_check_due():
            with suppress(DulyError):  # then the next flush looks
                look = self._async_runner.run_autocommit(self._attendance.is_unattended, wait=WAIT)
                self._attendance.warn_if_unattended(unattended=await look)
        elif self._attendance.wants_check():
            self.flush_soon()

    async def flush_awaited(self, *, closing: bool = False) -> None:
        """Write the sums; what cannot be written now is kept for the next time.

        A worker of this process that has left because the process closes is no reason to warn.
        """
        tally = self._take_counters()
        if not tally:
            return
        try:
            await flush(self._async_runner, tally)
        except DulyError as problem:
            self._keep(tally, problem)
            return
        if self._enqueued and not (closing and self.has_own_worker):
            with suppress(DulyError):  # then the next flush asks
                self._warn_without_workers(
                    await self._async_runner.run_autocommit(count_live_workers, wait=WAIT)
                )

    def _flush_on_timer(self) -> None:
        """What the timer's thread does; `close` waits for it."""
        self._flushing = threading.current_thread()
        self.flush_blocking()
        if self._attendance.is_check_due():
            with suppress(DulyError):  # then the next flush looks
                look = self._sync_runner.run_autocommit(self._attendance.is_unattended, wait=WAIT)
                self._attendance.warn_if_unattended(unattended=finish(look))
        elif self._attendance.wants_check():
            self.flush_soon_blocking()

    def flush_blocking(self, *, closing: bool = False) -> None:
        """The same on a thread."""
        tally = self._take_counters()
        if not tally:
            return
        try:
            finish(flush(self._sync_runner, tally))
        except DulyError as problem:
            self._keep(tally, problem)
            return
        if self._enqueued and not (closing and self.has_own_worker):
            with suppress(DulyError):  # then the next flush asks
                self._warn_without_workers(
                    finish(self._sync_runner.run_autocommit(count_live_workers, wait=WAIT))
                )

    def _take_counters(self) -> PendingCounters:
        with self._lock:
            tally, self._counters = self._counters, PendingCounters()
            due, self._due = self._due, None
        if due is not None:
            due.cancel()
        return tally

    def _keep(self, tally: PendingCounters, problem: DulyError) -> None:
        logger.debug("counters could not be written, they are kept: %s", problem)
        with self._lock:
            self._counters.add(tally)

    def _warn_without_workers(self, workers: int) -> None:
        self._enqueued = None
        if not workers:
            self._warn_once(NO_WORKER)


async def count_live_workers(session: Session) -> int:
    """How many workers were seen lately."""
    return len(await session.rows(WORKERS_ALIVE, age=ALIVE))
