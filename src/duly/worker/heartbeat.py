"""The heartbeat: says that this worker lives, on a thread and a connection of its own.

A handler that blocks the event loop must not cost its neighbours their leases, and one that hangs
must not keep its own for ever. So this thread waits for nobody.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.core.onestep import finish
from duly.core.session import host_time
from duly.jobs.lease import Leased, Settled, settle
from duly.jobs.outcome import RELEASED, Circumstances, timed_out
from duly.jobs.workers import beat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.core.session import Session
    from duly.jobs.outcome import Ended
    from duly.jobs.workers import Identity, Lease
    from duly.stores.store import Store
    from duly.worker.execution import Run
    from duly.worker.slots import Desk

logger = logging.getLogger("duly")
# Beats for each lease: two may be missed before anybody is in doubt.
BEATS = 3
# Seconds beyond its timeout that the event loop has to end a run before the heart does.
GRACE = 2.0


class Heart:
    """Beats until it is stopped."""

    def __init__(
        self,
        store: Store,
        worker: Identity,
        desk: Desk,
        *,
        lost: Callable[[Sequence[Run]], None],
        taking: Callable[[], bool],
    ) -> None:
        self._store = store.apart()
        self._worker = worker
        self._desk = desk
        self._lost = lost
        self._taking = taking
        self._pause = worker.lease / 1_000_000 / BEATS
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="duly-heart", daemon=True)
        # What looked lost, and what looked forgotten, at the last beat: nothing is done at once,
        # because a settle or a claim may be on its way.
        self._missing: set[tuple[str, int]] = set()
        # When the last beat began that was committed, and the last that counts.
        self._begun = self._beaten = 0.0
        self._strays: set[tuple[str, int]] = set()
        self._ended: set[tuple[str, int]] = set()

    def first(self) -> None:
        """Say that the worker is there, before it leases anything."""
        self._committed()
        self.confirm()

    def trusted(self) -> bool:
        """Whether no lease can be lost yet: the last beat is younger than a lease."""
        return time.monotonic() - self._beaten < self._worker.lease / 1_000_000

    def _committed(self) -> list[Lease]:
        """One beat; what comes back are the leases that the database knows of."""
        self._begun = time.monotonic()
        return finish(self._store.blocking.run_single(self._beat, wait=WAIT))

    def confirm(self) -> None:
        """The last beat counts: whoever begins jobs has heard which leases were lost."""
        self._beaten = self._begun

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._store.close()

    async def _beat(self, session: Session) -> list[Lease]:
        return await beat(session, self._worker)

    def _work(self) -> None:
        while not self._stopped.wait(self._pause * (0.9 + 0.2 * random.random())):  # noqa: S311
            try:
                self._once()
            except DulyError as problem:
                logger.warning("the heartbeat of this worker was not written: %s", problem)
            except Exception:  # whatever it is: a heart that stops loses every lease
                logger.exception("the heartbeat of this worker failed")

    def _once(self) -> None:
        # First: one that hangs in a transaction on SQLite keeps the beat itself from being written.
        self._end_overdue()
        before = [run for run in self._desk.leased() if run.ended is None]
        late = not self.trusted()
        held = self._committed()
        if not late:
            self.confirm()
        self._tell_lost(before, held, late=late)
        self._release_strays(held)

    def _tell_lost(self, before: Sequence[Run], held: Sequence[Lease], *, late: bool) -> None:
        """Tell of leases that others have: at once of those that never began, if they can."""
        known = {(lease.id, lease.epoch) for lease in held}
        missing = {(run.leased.id, run.leased.epoch): run for run in before}
        missing = {name: run for name, run in missing.items() if name not in known}
        gone = [
            run
            for name, run in missing.items()
            if name in self._missing or (late and run.started is None)
        ]
        self._missing = set(missing)
        if gone or late:
            self._lost([run for run in gone if run.ended is None])

    def _release_strays(self, held: Sequence[Lease]) -> None:
        """Give back what was leased by a statement whose answer never arrived."""
        if self._taking():
            self._strays = set()
            return
        ours = {(run.leased.id, run.leased.epoch) for run in self._desk.leased()}
        strays = {(lease.id, lease.epoch): lease for lease in held}
        strays = {name: lease for name, lease in strays.items() if name not in ours}
        forgotten = [
            Settled(stray(lease), RELEASED, 0)
            for name, lease in strays.items()
            if name in self._strays
        ]
        self._strays = set(strays)
        if forgotten:
            finish(self._store.blocking.run(lambda session: settle(session, forgotten), wait=WAIT))

    def _end_overdue(self) -> None:
        """End runs that the event loop should have ended: it is blocked, or its thread is."""
        now = time.monotonic()
        overdue = {
            (run.leased.id, run.leased.epoch): run
            for run in self._desk.running()
            if run.overdue(now, GRACE)
        }
        new = [run for name, run in overdue.items() if name not in self._ended]
        self._ended &= set(overdue)
        for run in new:
            logger.error(
                "handler %s ran longer than its timeout and keeps its event loop from doing "
                "anything else: its job is ended from outside",
                run.handler.name,
            )
            if run.revoke is not None:
                run.revoke()
        if new:
            ends = [Settled(run.leased, self._timed_out(run), run.ran) for run in new]
            finish(self._store.blocking.run(lambda session: settle(session, ends), wait=WAIT))
            self._ended |= {(run.leased.id, run.leased.epoch) for run in new}

    def _timed_out(self, run: Run) -> Ended:
        at = Circumstances(host_time(self._store.clock), random.random())  # noqa: S311
        return timed_out(run.leased, run.handler, at)


def stray(lease: Lease) -> Leased:
    """As much of a lease as is needed to end it."""
    return Leased(lease.id, "", "", "", None, None, 0, 0, 0, lease.token, lease.epoch, 0)
