"""Runs handlers in tasks and threads, from their start to their settled end.

The outcome of a run is decided once: by the handler that returned, by a timeout, by a lost lease,
or by the end of the worker. A later decision is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from itertools import chain
from typing import TYPE_CHECKING

from duly.core.failures import reason_record
from duly.jobs.lease import settle
from duly.jobs.outcome import (
    LOST,
    RELEASED,
    SETTLED,
    JobOutcome,
    outcome_of_interruption,
    outcome_of_run,
    outcome_of_timeout,
)
from duly.service.completer import Completer
from duly.worker.run_job import execute_job
from duly.worker.slots import HELD_TOO_LONG, Slots
from duly.worker.stats import Worked, log_execution
from duly.worker.thread_pool import ThreadPool
from duly.worker.version_completer import VersionCompleter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.core.errors import StoreRefused
    from duly.jobs.lease import JobSettlement
    from duly.worker.dependencies import WorkerDependencies
    from duly.worker.execution import Execution

logger = logging.getLogger("duly")
# Seconds that an abandoned handler has to end before it counts as stuck.
ENDING = 5.0
# Microseconds before a job is fetched again whose earlier run is still in this process.
AGAIN = 1_000_000
# Seconds that a task has to obey its cancellation before its connection is revoked.
OBEYING = 1.0


class Executor:
    """Runs the jobs in the slots; ``on_progress`` is called when a slot is free again."""

    def __init__(
        self,
        dependencies: WorkerDependencies,
        queues: Mapping[str, int],
        on_progress: Callable[[], None],
    ) -> None:
        self._dependencies = dependencies
        self._on_progress = on_progress
        self._host = dependencies.host
        self.slots = Slots(queues, self._host)
        self.worked = Worked()
        self.completer = Completer(
            dependencies.store.async_runner,
            settle,
            dead_settlement,
            self._on_settled,
            self.start,
            self._host.random,
        )
        self.version_completer = VersionCompleter(
            dependencies.store.async_runner, self._on_version_recorded, self._host.random
        )
        self.thread_pool = ThreadPool(
            dependencies.sync_context, self._on_handler_end, dependencies.threads
        )
        # Handler transactions that are open, by kind, and the runs that wait for one.
        self._transactions: Counter[str] = Counter()
        self._queued_for_transaction: dict[str, deque[Execution]] = {}
        # Runs whose handlers were abandoned and still occupy a thread, and since when.
        self._abandoned_threads: dict[Execution, float] = {}
        # True while no lease of this worker can have expired.
        self.heartbeat_is_fresh: Callable[[], bool] = lambda: True
        # Tasks that were cancelled and have not ended.
        self._cancelled_tasks: set[asyncio.Task[None]] = set()

    # Start

    def start(self) -> None:
        """Start what can run now, unless leases may be lost: then the next heartbeat decides."""
        if not self.heartbeat_is_fresh():
            return
        for run in self.slots.pop_startable():
            kind = self._transaction_kind(run)
            if kind is None:
                self._launch(run)
            else:
                self._queued_for_transaction.setdefault(kind, deque()).append(run)
        for kind, queued in self._queued_for_transaction.items():
            while queued and self._transactions[kind] < self._dependencies.transactions[kind]:
                self._transactions[kind] += 1
                self._launch(queued.popleft())
        self._on_progress()

    def _list_queued_for_transaction(self) -> list[Execution]:
        """The runs that wait for a transaction."""
        return list(chain.from_iterable(self._queued_for_transaction.values()))

    def _transaction_kind(self, run: Execution) -> str | None:
        """Which limit of transactions it counts against: SQLite has one for all."""
        if "tx" not in run.handler.wants:
            return None
        return run.handler.mode if self._dependencies.many_writers else "any"

    def _launch(self, run: Execution) -> None:
        run.launched_at = self._host.monotonic()
        if run.handler.mode == "sync":
            self.thread_pool.submit(run)
        else:
            run.task = asyncio.get_running_loop().create_task(self._run_async(run))

    async def _run_async(self, run: Execution) -> None:
        try:
            ended = await execute_job(run, self._dependencies.async_context)
        except asyncio.CancelledError as problem:
            if run.ended is not None:
                return
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the event loop is ending
                raise
            # The handler awaited something that was cancelled: that is an error of its own.
            ended = self._outcome_of_error(run, problem)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # no error may cost the job its slot
            ended = self._outcome_of_error(run, problem)
        self._on_handler_end(run, ended)

    def _outcome_of_error(self, run: Execution, problem: BaseException) -> JobOutcome:
        return outcome_of_run(
            run.leased, run.handler, problem, self._dependencies.async_context.circumstances(run)
        )

    # End

    def _on_handler_end(self, run: Execution, ended: JobOutcome) -> None:
        """A handler has returned, in a task or on a thread."""
        if run.ended is None:
            self._set_outcome(run, ended)
        else:  # it was abandoned before
            self._abandoned_threads.pop(run, None)

    def _set_outcome(self, run: Execution, ended: JobOutcome) -> None:
        """Decide how a run ended, and have that written."""
        run.ended = ended
        run.duration = run.elapsed
        if ended.kind in ("settled", "lost"):
            self._on_settled(run, ended, held=True)
            self.start()
        elif ended.version is not None:
            self.version_completer.add(run, ended.version)
        else:
            self.completer.add(run, run.settlement(ended))

    def _on_version_recorded(self, run: Execution, problem: Exception | None) -> None:
        """The version that a run applied is committed with its end, or cannot be."""
        self._set_outcome(run, SETTLED if problem is None else self._outcome_of_error(run, problem))

    def _on_settled(self, run: Execution, ended: JobOutcome, *, held: bool) -> None:
        """The end of a run is committed, or there was nothing to write."""
        self.slots.free_slot(run)
        kind = self._transaction_kind(run)
        if kind is not None and run.launched_at is not None:
            self._transactions[kind] -= 1
        self.worked.count(run.leased, ended, held=held)
        log_execution(run, ended, held=held)

    def refuse(self, run: Execution, problem: Exception) -> None:
        """Settle a run that cannot start; the problem counts as its error."""
        self.settle_unstarted(run, self._outcome_of_error(run, problem))

    def settle_unstarted(self, run: Execution, ended: JobOutcome) -> None:
        """End the lease of a job that never started; it has its slot until that is committed."""
        run.ended = ended
        self.slots.occupy(run)
        self.completer.add(run, run.settlement(ended))

    # Early end

    def enforce_time_limits(self) -> None:
        """Abandon handlers that took too long, and release jobs that were held too long."""
        now = self._host.monotonic()
        for run in self.slots.list_running():
            if run.is_overdue(now):
                limit = run.handler.timeout / 1_000_000
                logger.error(
                    "handler %s ran longer than its timeout of %g s, in job %s",
                    run.handler.name,
                    limit,
                    run.id,
                )
                at = self._dependencies.async_context.circumstances(run)
                self._abort(run, outcome_of_timeout(run.leased, run.handler, at))
        waited = [
            run
            for run in self._list_queued_for_transaction()
            if now - run.leased_at > HELD_TOO_LONG
        ]
        for run in [*self.slots.pop_prefetched(HELD_TOO_LONG), *waited]:
            self._drop(run)
            self.settle_unstarted(run, RELEASED)

    def replace_earlier_run(self, run: Execution) -> bool:
        """Abandon an earlier run of the same job, which lost its lease; True if there was one.

        The new lease is released: two runs of one job must not be in one process at a time. A run
        whose handler has returned does not count: its end is committed, the reply is on its way.
        """
        old = self.slots.queues[run.leased.queue].running.get(run.id)
        if old is None or self._is_over(old):
            return False
        self.abandon_lost([old])
        self.settle_unstarted(run, JobOutcome("again", delay=AGAIN))
        return True

    def _is_over(self, run: Execution) -> bool:
        """True if nothing of it runs any more, not even an abandoned handler."""
        over = run.task is None or run.task.done()
        return run.ended is not None and over and run not in self._abandoned_threads

    def abandon_lost(self, runs: Sequence[Execution]) -> None:
        """Abandon runs whose leases other workers have."""
        for run in runs:
            if run.ended is not None or run not in self.slots:
                continue
            if run.launched_at is None:
                self._drop(run)
            else:
                self._abort(run, LOST)

    def _abort(self, run: Execution, ended: JobOutcome) -> None:
        """End a run whose handler goes on; its lease is settled, or lost already."""
        self._set_outcome(run, ended)
        if run.task is None:
            self._abandoned_threads[run] = self._host.monotonic()
            self._revoke(run)
            return
        run.task.cancel()
        self._cancelled_tasks.add(run.task)
        run.task.add_done_callback(self._cancelled_tasks.discard)
        # A task that ignores its cancellation must not keep SQLite's only lock.
        asyncio.get_running_loop().call_later(OBEYING, self._revoke_if_still_running, run)

    def _revoke_if_still_running(self, run: Execution) -> None:
        if run.task is not None and not run.task.done():
            logger.error("handler %s ignores its cancellation", run.handler.name)
            self._revoke(run)

    def _revoke(self, run: Execution) -> None:
        if run.revoke is not None:  # on a thread: it may wait for a server
            self._dependencies.threads.thread(
                target=run.revoke, name="duly-revoke", daemon=True
            ).start()

    @property
    def stuck_threads(self) -> int:
        """How many threads are still occupied, long after their handlers were abandoned."""
        now = self._host.monotonic()
        return sum(now - since > ENDING for since in self._abandoned_threads.values())

    def _drop(self, run: Execution) -> None:
        self.slots.drop(run)
        for queued in self._queued_for_transaction.values():
            if run in queued:
                queued.remove(run)

    # Shutdown

    def release_unstarted(self) -> None:
        """Release what never started: that costs the job nothing."""
        for run in [*self.slots.pop_prefetched(), *self._list_queued_for_transaction()]:
            self._drop(run)
            self.settle_unstarted(run, RELEASED)

    def is_busy(self) -> bool:
        """True while a handler runs."""
        return any(run.ended is None for run in self.slots.list_running())

    def describe_running(self) -> str:
        """The running jobs, for the log."""
        return ", ".join(
            f"{run.leased.name} {run.id} (for {run.elapsed / 1_000_000:.0f} s)"
            for run in self.slots.list_running()
            if run.ended is None
        )

    def interrupt_running(self, *, threads: bool) -> None:
        """Interrupt what runs; it may have been half-way, so that counts as a rescue."""
        for run in self.slots.list_running():
            if run.ended is None and (threads or run.task is not None):
                attempt = run.leased.attempts + 1
                why = reason_record("its worker was stopped while it ran", attempt, "duly.Stopped")
                at = self._dependencies.async_context.circumstances(run)
                self._abort(run, outcome_of_interruption(run.leased, why, at))

    async def close(self, seconds: float) -> None:
        """Wait until outcomes are written and cancelled tasks have ended."""
        try:
            async with asyncio.timeout(max(seconds, ENDING)):
                await self.version_completer.flush()  # first: what cannot be recorded is settled
                await self.completer.flush()
        except TimeoutError:
            left = self.version_completer.pending + self.completer.pending
            logger.error("%d jobs could not be settled: another worker will rescue them", left)
        if self._cancelled_tasks:
            await asyncio.wait(list(self._cancelled_tasks), timeout=ENDING)
        self.thread_pool.close()


def dead_settlement(one: JobSettlement, problem: StoreRefused) -> JobSettlement:
    """What to write where the database refuses the end of a job: it is dead."""
    error = reason_record(
        f"its end was refused: {problem}", one.attempt, "duly.errors.StoreRefused"
    )
    return one._replace(ended=JobOutcome("dead", attempts_used=1, error=error))
