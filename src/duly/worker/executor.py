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
    ALONE,
    LOST,
    RELEASED,
    SETTLED,
    SETTLED_STALE,
    JobOutcome,
    outcome_of_interruption,
    outcome_of_timeout,
)
from duly.service.completer import Completer
from duly.worker.execution import Batch
from duly.worker.run_job import execute_job, outcome_of_error
from duly.worker.slots import HELD_TOO_LONG, Slots
from duly.worker.stats import Worked, log_execution, log_rolled_back
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
        *,
        batching: bool = True,
    ) -> None:
        self._dependencies = dependencies
        self._on_progress = on_progress
        self._host = dependencies.host
        batches: dict[str, int] = {}
        for handler in dependencies.registries.jobs.all():
            batches[handler.queue] = max(batches.get(handler.queue, 1), handler.many or 1)
        self.slots = Slots(queues, self._host, batches=batches, batching=batching)
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
            if run.ended is not None:  # it was abandoned before
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
        return outcome_of_error(run, problem, self._dependencies.async_context)

    # End

    def _on_handler_end(self, run: Execution, ended: JobOutcome) -> None:
        """A handler has returned, in a task or on a thread."""
        if run.ended is None:
            self._set_outcome(run, ended)
        else:  # it was abandoned before
            self._abandoned_threads.pop(run, None)
            if isinstance(run, Batch):
                self._end_abandoned_batch(run, ended)

    def _set_outcome(self, run: Execution, ended: JobOutcome) -> None:
        """Decide how a run ended, and have that written."""
        run.ended = ended
        run.duration = run.elapsed
        if isinstance(run, Batch):
            self._end_batch(run, ended)
        elif ended.kind in ("settled", "lost"):
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

    # Batches

    def _end_batch(self, batch: Batch, ended: JobOutcome) -> None:
        """A batch whose handler has returned is done as a whole, or as if it had never begun."""
        if ended.kind == "settled":
            self._complete_batch(batch)
        elif ended.kind == "alone":
            self._run_alone(batch)
        else:  # the database was busy before it began
            self._settle_members(batch, lambda _: ended)

    def _complete_batch(self, batch: Batch) -> None:
        """The ends of all jobs of a batch are committed."""
        self.slots.free_slot(batch)
        self._transactions[self._transaction_kind(batch) or ""] -= 1
        for run in batch.members:
            run.ended = SETTLED_STALE if run in batch.stale else SETTLED
            run.duration = batch.duration
            self.worked.count(run.leased, run.ended, held=True)
            log_execution(run, run.ended, held=True)
            run.batch = None
        self.start()

    def _run_alone(self, batch: Batch) -> None:
        """Run each job of a batch that was rolled back, unless its lease was lost."""
        log_rolled_back(batch)
        self.slots.put_back(batch.leased.queue, self._dissolve(batch))
        self.start()

    def _dissolve(self, batch: Batch, *, joins: bool = False) -> list[Execution]:
        """Free the slot of a batch; return the runs of it that have their leases."""
        self._drop(batch)
        held = batch.dissolve(joins=joins)
        if batch.launched_at is not None:
            self._transactions[self._transaction_kind(batch) or ""] -= 1
            for run in set(batch.members).difference(held):
                run.ended = LOST
                self.worked.count(run.leased, LOST, held=True)
                log_execution(run, LOST, held=True)
        return held

    def _settle_members(self, batch: Batch, end: Callable[[Execution], JobOutcome]) -> None:
        """End the leases of a batch that had no end of its own."""
        for run in self._dissolve(batch):
            self.settle_unstarted(run, end(run))

    def _abort_batch(self, batch: Batch) -> None:
        """Take the transaction from the handler of a batch; its jobs run alone once it has ended.

        Not before: it may have locked what they need. And it may still commit: then they are done.
        """
        batch.ended = ALONE
        batch.duration = batch.elapsed
        self._stop_handler(batch)
        if batch.task is not None:
            batch.task.add_done_callback(lambda _: self._end_abandoned_batch(batch, ALONE))
        asyncio.get_running_loop().call_later(ENDING, self._give_up_batch, batch)

    def _end_abandoned_batch(self, batch: Batch, ended: JobOutcome) -> None:
        """The handler of an abandoned batch has ended, and its transaction with it."""
        if batch not in self.slots:
            return
        if ended.kind == "settled":
            self._complete_batch(batch)
        else:
            self._run_alone(batch)

    def _give_up_batch(self, batch: Batch) -> None:
        """End the leases of a batch whose handler does not end: that counts as a rescue."""
        if batch in self.slots:
            self._interrupt_members(batch, "its batch ran longer than its timeout, and went on")

    def _interrupt_members(self, batch: Batch, why: str) -> None:
        """End the leases of a batch as rescued ones, so that none of its jobs joins another."""
        self._settle_members(batch, lambda run: self._outcome_of_interruption(run, why))

    def _outcome_of_interruption(self, run: Execution, why: str) -> JobOutcome:
        at = self._dependencies.async_context.circumstances(run)
        reason = reason_record(why, run.leased.attempts + 1, "duly.Stopped")
        return outcome_of_interruption(run.leased, reason, at)

    def refuse(self, run: Execution, problem: Exception) -> None:
        """Settle a run that cannot start; the problem counts as its error."""
        self.settle_unstarted(run, self._outcome_of_error(run, problem))

    def settle_unstarted(self, run: Execution, ended: JobOutcome) -> None:
        """End the lease of a job that never started; it has its slot until that is committed."""
        for one in run.members:
            one.ended = ended
            self.slots.occupy(one)
            self.completer.add(one, one.settlement(ended))

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
            if now - run.held_since > HELD_TOO_LONG
        ]
        for run in [*self.slots.pop_prefetched(HELD_TOO_LONG), *waited]:
            self._drop(run)
            self.settle_unstarted(run, RELEASED)

    def replace_earlier_run(self, run: Execution) -> bool:
        """Abandon an earlier run of the same job, which lost its lease; True if there was one.

        The new lease is released: two runs of one job must not be in one process at a time. A run
        whose handler has returned does not count: its end is committed, the reply is on its way.
        """
        queue = self.slots.queues[run.leased.queue]
        old = queue.running.get(run.id) or queue.in_batches.get(run.id)
        if old is None or self._is_over(old.batch or old):
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
            if run.batch is not None:
                self._abandon_member(run, run.batch)
            elif run.launched_at is None:
                self._drop(run)
            else:
                self._abort(run, LOST)

    def _abandon_member(self, run: Execution, batch: Batch) -> None:
        """Roll a batch back of which one job lost its lease."""
        batch.lost.add(run)
        if batch.launched_at is None:
            self.slots.put_back(run.leased.queue, self._dissolve(batch, joins=True))
        elif batch.ended is None:
            self._abort_batch(batch)

    def _abort(self, run: Execution, ended: JobOutcome) -> None:
        """End a run whose handler goes on; its lease is settled, or lost already."""
        if isinstance(run, Batch):
            self._abort_batch(run)
            return
        self._set_outcome(run, ended)
        self._stop_handler(run)

    def _stop_handler(self, run: Execution) -> None:
        """Cancel a handler, or take its connection away."""
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
        return any(map(is_unsettled, self.slots.list_running()))

    def describe_running(self) -> str:
        """The running jobs, for the log."""
        return ", ".join(
            f"{run.leased.name} {run.id} (for {run.elapsed / 1_000_000:.0f} s)"
            for run in self.slots.list_running()
            if is_unsettled(run)
        )

    def interrupt_running(self, *, threads: bool) -> None:
        """Interrupt what runs; it may have been half-way, so that counts as a rescue."""
        for run in self.slots.list_running():
            if not is_unsettled(run) or (run.task is None and not threads):
                continue
            why = "its worker was stopped while it ran"
            if isinstance(run, Batch):
                self._abort_batch(run)
                self._interrupt_members(run, why)
            else:
                self._abort(run, self._outcome_of_interruption(run, why))

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


def is_unsettled(run: Execution) -> bool:
    """True if nothing decides yet how the job of a run ends, or the jobs of a batch."""
    return run.ended is None or run.ended is ALONE


def dead_settlement(one: JobSettlement, problem: StoreRefused) -> JobSettlement:
    """What to write where the database refuses the end of a job: it is dead."""
    error = reason_record(
        f"its end was refused: {problem}", one.attempt, "duly.errors.StoreRefused"
    )
    return one._replace(ended=JobOutcome("dead", attempts_used=1, error=error))
