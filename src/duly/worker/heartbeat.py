"""The heartbeat: keeps this worker's leases, on a thread and a connection of its own.

A handler that blocks the event loop must not cost its neighbours their leases, and one that hangs
must not keep its own for ever. So this thread waits for neither.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.core.failures import reason_record
from duly.core.onestep import finish
from duly.core.session import host_time
from duly.jobs.lease import JobSettlement, settle
from duly.jobs.outcome import (
    RELEASED,
    RunContext,
    outcome_of_interruption,
    outcome_of_timeout,
)
from duly.jobs.workers import record_heartbeat
from duly.worker.execution import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.core.session import Session
    from duly.jobs.workers import WorkerIdentity
    from duly.ledger.lease import Lease
    from duly.worker.dependencies import WorkerDependencies
    from duly.worker.execution import Execution
    from duly.worker.slots import Slots

logger = logging.getLogger("duly")
# Beats for each lease: two may be missed before it is in doubt.
BEATS = 3
# Seconds beyond its timeout that the event loop has to end a run before the heartbeat does.
GRACE = 2.0


class Heartbeat:
    """Writes a beat for this worker until it is stopped."""

    def __init__(
        self,
        dependencies: WorkerDependencies,
        worker: WorkerIdentity,
        slots: Slots,
        *,
        on_lost: Callable[[Sequence[Execution]], None],
        fetching: Callable[[], bool],
    ) -> None:
        self._store = dependencies.store.apart()
        self._host, threads = dependencies.host, dependencies.threads
        self._worker = worker
        self._slots = slots
        self._on_lost = on_lost
        self._fetching = fetching
        self._pause = worker.lease / 1_000_000 / BEATS
        self._stopped = threads.event()
        self._thread = threads.thread(
            target=self._beat_until_stopped, name="duly-heartbeat", daemon=True
        )
        # Leases that looked lost, or unknown to this worker, at the last beat. Nothing is done at
        # once: a settle or a fetch may be on its way.
        self._missing: set[Lease] = set()
        # When the last beat began that was committed, and the last that counts.
        self._beat_started_at = self._confirmed_at = 0.0
        self._strays: set[Lease] = set()
        self._ended_overdue: set[Lease] = set()

    def announce(self) -> None:
        """Write the first beat, before the worker leases anything."""
        self._write_beat()
        self.confirm()

    def is_fresh(self) -> bool:
        """True while no lease can have expired: the last beat is younger than a lease."""
        return self._host.monotonic() - self._confirmed_at < self._worker.lease / 1_000_000

    def _write_beat(self) -> set[Lease]:
        """Write one beat; return the leases that the database knows of."""
        self._beat_started_at = self._host.monotonic()
        return finish(self._store.sync_runner.run_autocommit(self._beat, wait=WAIT))

    def confirm(self) -> None:
        """Let the last beat count: the executor knows which leases were lost."""
        self._confirmed_at = self._beat_started_at

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and close its connection."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._store.close()

    async def _beat(self, session: Session) -> set[Lease]:
        return await record_heartbeat(session, self._worker)

    def _beat_until_stopped(self) -> None:
        while not self._stopped.wait(self._pause * (0.9 + 0.2 * self._host.random.random())):
            try:
                self._beat_once()
            except DulyError as problem:
                logger.warning("the heartbeat of this worker was not written: %s", problem)
            except Exception:  # without a heartbeat every lease is lost
                logger.exception("the heartbeat of this worker failed")

    def _beat_once(self) -> None:
        # First: a handler that hangs in a transaction on SQLite keeps the beat from being written.
        self._end_overdue()
        before = [run for run in self._slots.list_leased() if run.ended is None]
        late = not self.is_fresh()
        held = self._write_beat()
        if not late:
            self.confirm()
        self._report_lost(before, held, late=late)
        self._release_strays(held)

    def _report_lost(self, before: Sequence[Execution], held: set[Lease], *, late: bool) -> None:
        """Report lost leases at the second beat; at once those of jobs that never started."""
        missing = {run.leased.lease: run for run in before if run.leased.lease not in held}
        gone = [
            run
            for lease, run in missing.items()
            if lease in self._missing or (late and (run.batch or run).launched_at is None)
        ]
        self._missing = set(missing)
        if gone or late:
            self._on_lost([run for run in gone if run.ended is None])

    def _release_strays(self, held: set[Lease]) -> None:
        """Release what was leased by a statement whose reply was lost."""
        if self._fetching():
            self._strays = set()
            return
        strays = held - {run.leased.lease for run in self._slots.list_leased()}
        # Sorted: the order of a set differs from process to process.
        forgotten = [JobSettlement(lease, RELEASED) for lease in sorted(strays & self._strays)]
        self._strays = strays
        if forgotten:
            finish(
                self._store.sync_runner.run(lambda session: settle(session, forgotten), wait=WAIT)
            )

    def _end_overdue(self) -> None:
        """End overdue runs that the event loop did not end: it is blocked."""
        now = self._host.monotonic()
        overdue = {
            run.leased.lease: run
            for run in self._slots.list_running()
            if run.is_overdue(now, GRACE)
        }
        new = [run for lease, run in overdue.items() if lease not in self._ended_overdue]
        self._ended_overdue &= set(overdue)
        for run in new:
            logger.error(
                "handler %s ran longer than its timeout and keeps its event loop from doing "
                "anything else: its job is ended from outside",
                run.handler.name,
            )
            if run.revoke is not None:
                run.revoke()
        if new:
            ends = [end for run in new for end in self._settlements_of_overdue(run)]
            finish(self._store.sync_runner.run(lambda session: settle(session, ends), wait=WAIT))
            self._ended_overdue |= {run.leased.lease for run in new}

    def _settlements_of_overdue(self, run: Execution) -> list[JobSettlement]:
        at = RunContext(host_time(self._store.clock), self._host.random.random())
        if not isinstance(run, Batch):
            return [run.settlement(outcome_of_timeout(run.leased, run.handler, at))]
        # The event loop cannot run its jobs alone, so they are rescued: that uses no attempt.
        run.lost.update(run.members)
        why = reason_record("its batch ran longer than its timeout", 1, "duly.Stopped")
        ended = outcome_of_interruption(run.leased, why, at)
        return [one.settlement(ended) for one in run.members]
