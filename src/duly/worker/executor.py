"""Those who do the work: handlers in tasks and threads, from their start to their settled end.

What is decided about a run is decided once: by the handler that is through, by a timeout, by a
lost lease, or by the end of the worker. Whoever comes later is not heard.
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
# Seconds that a handler which was given up has to end before it counts as stuck.
ENDING = 5.0
# Microseconds before a job is taken again whose earlier run was still here.
AGAIN = 1_000_000
# Seconds that one has to obey a cancellation before its connection is taken away.
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
        # Transactions of handlers that are open, by colour, and the runs that wait for one.
        self._transactions: Counter[str] = Counter()
        self._queued_for_transaction: dict[str, deque[Execution]] = {}
        # Threads whose handlers were given up and have not come back, and since when.
        self._abandoned_threads: dict[Execution, float] = {}
        # Whether the leases of this worker can be relied on; the heart says.
        self.heartbeat_is_fresh: Callable[[], bool] = lambda: True
        # What was cancelled and is not over yet.
        self._cancelled_tasks: set[asyncio.Task[None]] = set()

    # Beginning

    def start(self) -> None:
        """Begin what can run now, unless the leases may be lost: the next heartbeat tells."""
        if not self.heartbeat_is_fresh():
            return
        for run in self.slots.pop_startable():
            lane = self._transaction_kind(run)
            if lane is None:
                self._launch(run)
            else:
                self._queued_for_transaction.setdefault(lane, deque()).append(run)
        for lane, patient in self._queued_for_transaction.items():
            while patient and self._transactions[lane] < self._dependencies.transactions[lane]:
                self._transactions[lane] += 1
                self._launch(patient.popleft())
        self._on_progress()

    def _list_queued_for_transaction(self) -> list[Execution]:
        """Those that wait for a transaction."""
        return list(chain.from_iterable(self._queued_for_transaction.values()))

    def _transaction_kind(self, run: Execution) -> str | None:
        """Among which transactions it counts: SQLite has one for all."""
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
        except BaseException as problem:  # whatever it is: it must not cost the job its slot
            ended = self._outcome_of_error(run, problem)
        self._on_handler_end(run, ended)

    def _outcome_of_error(self, run: Execution, problem: BaseException) -> JobOutcome:
        return outcome_of_run(
            run.leased, run.handler, problem, self._dependencies.async_context.circumstances(run)
        )

    # Ending

    def _on_handler_end(self, run: Execution, ended: JobOutcome) -> None:
        """A handler is through, on whatever it ran."""
        if run.ended is None:
            self._set_outcome(run, ended)
        else:  # it was given up before, and is back
            self._abandoned_threads.pop(run, None)

    def _set_outcome(self, run: Execution, ended: JobOutcome) -> None:
        """How a run ended; decided once."""
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
        """The version that a run applied is committed with its end, or never can be."""
        self._set_outcome(run, SETTLED if problem is None else self._outcome_of_error(run, problem))

    def _on_settled(self, run: Execution, ended: JobOutcome, *, held: bool) -> None:
        """The end of a run is committed, or there was nothing to write."""
        self.slots.free_slot(run)
        lane = self._transaction_kind(run)
        if lane is not None and run.launched_at is not None:
            self._transactions[lane] -= 1
        self.worked.count(run.leased, ended, held=held)
        log_execution(run, ended, held=held)

    def refuse(self, run: Execution, problem: Exception) -> None:
        """It cannot even begin: what is wrong with it counts as its error."""
        self.settle_unstarted(run, self._outcome_of_error(run, problem))

    def settle_unstarted(self, run: Execution, ended: JobOutcome) -> None:
        """End the lease of a job that never began; it has its slot until that is committed."""
        run.ended = ended
        self.slots.occupy(run)
        self.completer.add(run, run.settlement(ended))

    # Ending early

    def enforce_time_limits(self) -> None:
        """Give up handlers that took too long, and give back jobs that were held too long."""
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
        """Give up an earlier run of the same job, which was lost; whether there was one.

        The new lease is given back: two runs of one job must not be in one process at a time. One
        whose handler is through does not count: its end is committed, and the answer on its way.
        """
        old = self.slots.queues[run.leased.queue].running.get(run.id)
        if old is None or self._is_over(old):
            return False
        self.abandon_lost([old])
        self.settle_unstarted(run, JobOutcome("again", delay=AGAIN))
        return True

    def _is_over(self, run: Execution) -> bool:
        """Whether nothing of it runs any more, not even a handler that was given up."""
        over = run.task is None or run.task.done()
        return run.ended is not None and over and run not in self._abandoned_threads

    def abandon_lost(self, runs: Sequence[Execution]) -> None:
        """Somebody else has these leases."""
        for run in runs:
            if run.ended is not None or run not in self.slots:
                continue
            if run.launched_at is None:
                self._drop(run)
            else:
                self._abort(run, LOST)

    def _abort(self, run: Execution, ended: JobOutcome) -> None:
        """End a run that does not end by itself; its lease is settled, or lost already."""
        self._set_outcome(run, ended)
        if run.task is None:
            self._abandoned_threads[run] = self._host.monotonic()
            self._revoke(run)
            return
        run.task.cancel()
        self._cancelled_tasks.add(run.task)
        run.task.add_done_callback(self._cancelled_tasks.discard)
        # One that does not let itself be cancelled must not keep SQLite's only lock.
        asyncio.get_running_loop().call_later(OBEYING, self._revoke_if_still_running, run)

    def _revoke_if_still_running(self, run: Execution) -> None:
        if run.task is not None and not run.task.done():
            logger.error("handler %s does not let itself be cancelled", run.handler.name)
            self._revoke(run)

    def _revoke(self, run: Execution) -> None:
        if run.revoke is not None:  # it may wait for a server; nobody waits for it
            self._dependencies.threads.thread(
                target=run.revoke, name="duly-revoke", daemon=True
            ).start()

    @property
    def stuck_threads(self) -> int:
        """How many threads have not come back for long after their handlers were given up."""
        now = self._host.monotonic()
        return sum(now - since > ENDING for since in self._abandoned_threads.values())

    def _drop(self, run: Execution) -> None:
        self.slots.drop(run)
        for patient in self._queued_for_transaction.values():
            if run in patient:
                patient.remove(run)

    # The end of all

    def release_unstarted(self) -> None:
        """Give back what never began: it costs the job nothing."""
        for run in [*self.slots.pop_prefetched(), *self._list_queued_for_transaction()]:
            self._drop(run)
            self.settle_unstarted(run, RELEASED)

    def is_busy(self) -> bool:
        """Whether a handler is at work."""
        return any(run.ended is None for run in self.slots.list_running())

    def describe_running(self) -> str:
        """What runs, for a person."""
        return ", ".join(
            f"{run.leased.name} {run.id} (for {run.elapsed / 1_000_000:.0f} s)"
            for run in self.slots.list_running()
            if run.ended is None
        )

    def interrupt_running(self, *, threads: bool) -> None:
        """Give back what runs; it may have been half-way, so that counts as a rescue."""
        for run in self.slots.list_running():
            if run.ended is None and (threads or run.task is not None):
                attempt = run.leased.attempts + 1
                why = reason_record("its worker was stopped while it ran", attempt, "duly.Stopped")
                at = self._dependencies.async_context.circumstances(run)
                self._abort(run, outcome_of_interruption(run.leased, why, at))

    async def close(self, patience: float) -> None:
        """Wait for what was decided to be written, and for what was cancelled to end."""
        try:
            async with asyncio.timeout(max(patience, ENDING)):
                await self.version_completer.flush()  # first: what cannot be recorded is settled
                await self.completer.flush()
        except TimeoutError:
            left = self.version_completer.pending + self.completer.pending
            logger.error("%d jobs cannot be settled and are left to be rescued", left)
        if self._cancelled_tasks:
            await asyncio.wait(list(self._cancelled_tasks), timeout=ENDING)
        self.thread_pool.close()


def dead_settlement(one: JobSettlement, problem: StoreRefused) -> JobSettlement:
    """What to write where the database never takes the end of a job: it is dead, and says why."""
    error = reason_record(
        f"its end was refused: {problem}", one.attempt, "duly.errors.StoreRefused"
    )
    return one._replace(ended=JobOutcome("dead", attempts_used=1, error=error))
