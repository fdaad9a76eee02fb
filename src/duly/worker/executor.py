"""Those who do the work: handlers in tasks and threads, from their start to their settled end.

What is decided about a run is decided once: by the handler that is through, by a timeout, by a
lost lease, or by the end of the worker. Whoever comes later is not heard.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import Counter, deque
from itertools import chain
from typing import TYPE_CHECKING

from duly.core.failures import plain
from duly.jobs.lease import Settled, settle
from duly.jobs.outcome import LOST, RELEASED, SETTLED, Ended, interrupted, judged, timed_out
from duly.service.completer import Settler
from duly.worker.run_job import perform
from duly.worker.slots import HELD_TOO_LONG, Desk
from duly.worker.stats import Worked, tell_end
from duly.worker.thread_pool import Hands
from duly.worker.version_completer import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.core.errors import StoreRefused
    from duly.worker.dependencies import Parts
    from duly.worker.execution import Run

logger = logging.getLogger("duly")
# Seconds that a handler which was given up has to end before it counts as stuck.
ENDING = 5.0
# Microseconds before a job is taken again whose earlier run was still here.
AGAIN = 1_000_000
# Seconds that one has to obey a cancellation before its connection is taken away.
OBEYING = 1.0


class Crew:
    """Runs what is on the desk; ``stirred`` is called whenever a slot is free again."""

    def __init__(
        self, parts: Parts, queues: Mapping[str, int], stirred: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._stirred = stirred
        self.desk = Desk(queues)
        self.worked = Worked()
        self.settler = Settler(parts.store.awaited, settle, buried, self._settled, self.start)
        self.recorder = Recorder(parts.store.awaited, self._recorded)
        self.hands = Hands(parts.blocking, self._through)
        # Transactions of handlers that are open, by colour, and the runs that wait for one.
        self._transactions: Counter[str] = Counter()
        self._patient: dict[str, deque[Run]] = {}
        # Threads whose handlers were given up and have not come back, and since when.
        self._away: dict[Run, float] = {}
        # Whether the leases of this worker can be relied on; the heart says.
        self.trusted: Callable[[], bool] = lambda: True
        # What was cancelled and is not over yet.
        self._ending: set[asyncio.Task[None]] = set()

    # Beginning

    def start(self) -> None:
        """Begin what can run now, unless the leases may be lost: the next heartbeat tells."""
        if not self.trusted():
            return
        for run in self.desk.startable():
            lane = self._lane(run)
            if lane is None:
                self._launch(run)
            else:
                self._patient.setdefault(lane, deque()).append(run)
        for lane, patient in self._patient.items():
            while patient and self._transactions[lane] < self._parts.transactions[lane]:
                self._transactions[lane] += 1
                self._launch(patient.popleft())
        self._stirred()

    def _waiting(self) -> list[Run]:
        """Those that wait for a transaction."""
        return list(chain.from_iterable(self._patient.values()))

    def _lane(self, run: Run) -> str | None:
        """Among which transactions it counts: SQLite has one for all."""
        if "tx" not in run.handler.wants:
            return None
        return run.handler.colour if self._parts.many_writers else "any"

    def _launch(self, run: Run) -> None:
        run.started = time.monotonic()
        if run.handler.colour == "sync":
            self.hands.give(run)
        else:
            run.task = asyncio.get_running_loop().create_task(self._run_awaited(run))

    async def _run_awaited(self, run: Run) -> None:
        try:
            ended = await perform(run, self._parts.awaited)
        except asyncio.CancelledError as problem:
            if run.ended is not None:
                return
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the event loop is ending
                raise
            # The handler awaited something that was cancelled: that is an error of its own.
            ended = self._judged(run, problem)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # whatever it is: it must not cost the job its slot
            ended = self._judged(run, problem)
        self._through(run, ended)

    def _judged(self, run: Run, problem: BaseException) -> Ended:
        return judged(run.leased, run.handler, problem, self._parts.awaited.circumstances(run))

    # Ending

    def _through(self, run: Run, ended: Ended) -> None:
        """A handler is through, on whatever it ran."""
        if run.ended is None:
            self._decide(run, ended)
        else:  # it was given up before, and is back
            self._away.pop(run, None)

    def _decide(self, run: Run, ended: Ended) -> None:
        """How a run ended; decided once."""
        run.ended = ended
        run.took = run.ran
        if ended.kind in ("settled", "lost"):
            self._settled(run, ended, held=True)
            self.start()
        elif ended.version is not None:
            self.recorder.add(run, Settled(run.leased, ended, run.ran), ended.version)
        else:
            self.settler.add(run, Settled(run.leased, ended, run.ran))

    def _recorded(self, run: Run, problem: Exception | None) -> None:
        """The version that a run applied is committed with its end, or never can be."""
        self._decide(run, SETTLED if problem is None else self._judged(run, problem))

    def _settled(self, run: Run, ended: Ended, *, held: bool) -> None:
        """The end of a run is committed, or there was nothing to write."""
        self.desk.clear(run)
        lane = self._lane(run)
        if lane is not None and run.started is not None:
            self._transactions[lane] -= 1
        self.worked.count(run.leased, ended, held=held)
        tell_end(run, ended, held=held)

    def refuse(self, run: Run, problem: Exception) -> None:
        """It cannot even begin: what is wrong with it counts as its error."""
        self.settle_unstarted(run, self._judged(run, problem))

    def settle_unstarted(self, run: Run, ended: Ended) -> None:
        """End the lease of a job that never began; it has its slot until that is committed."""
        run.ended = ended
        self.desk.occupy(run)
        self.settler.add(run, Settled(run.leased, ended, run.ran))

    # Ending early

    def look_at_the_clock(self) -> None:
        """Give up handlers that took too long, and give back jobs that were held too long."""
        now = time.monotonic()
        for run in self.desk.running():
            if run.overdue(now):
                limit = run.handler.timeout / 1_000_000
                logger.error(
                    "handler %s ran longer than its timeout of %g s, in job %s",
                    run.handler.name,
                    limit,
                    run.leased.id,
                )
                at = self._parts.awaited.circumstances(run)
                self._give_up(run, timed_out(run.leased, run.handler, at))
        waited = [run for run in self._waiting() if now - run.held > HELD_TOO_LONG]
        for run in [*self.desk.take_held(HELD_TOO_LONG), *waited]:
            self._drop(run)
            self.settle_unstarted(run, RELEASED)

    def replace(self, run: Run) -> bool:
        """Give up an earlier run of the same job, which was lost; whether there was one.

        The new lease is given back: two runs of one job must not be in one process at a time. One
        whose handler is through does not count: its end is committed, and the answer on its way.
        """
        old = self.desk.running_job(run.leased)
        if old is None or self._is_through(old):
            return False
        self.hear_lost([old])
        self.settle_unstarted(run, Ended("again", delay=AGAIN))
        return True

    def _is_through(self, run: Run) -> bool:
        """Whether nothing of it runs any more, not even a handler that was given up."""
        over = run.task is None or run.task.done()
        return run.ended is not None and over and run not in self._away

    def hear_lost(self, runs: Sequence[Run]) -> None:
        """Somebody else has these leases."""
        for run in runs:
            if run.ended is not None or run not in self.desk:
                continue
            if run.started is None:
                self._drop(run)
            else:
                self._give_up(run, LOST)

    def _give_up(self, run: Run, ended: Ended) -> None:
        """End a run that does not end by itself; its lease is settled, or lost already."""
        self._decide(run, ended)
        if run.task is None:
            self._away[run] = time.monotonic()
            self._revoke(run)
            return
        run.task.cancel()
        self._ending.add(run.task)
        run.task.add_done_callback(self._ending.discard)
        # One that does not let itself be cancelled must not keep SQLite's only lock.
        asyncio.get_running_loop().call_later(OBEYING, self._revoke_disobedient, run)

    def _revoke_disobedient(self, run: Run) -> None:
        if run.task is not None and not run.task.done():
            logger.error("handler %s does not let itself be cancelled", run.handler.name)
            self._revoke(run)

    def _revoke(self, run: Run) -> None:
        if run.revoke is not None:  # it may wait for a server; nobody waits for it
            threading.Thread(target=run.revoke, name="duly-revoke", daemon=True).start()

    @property
    def stuck(self) -> int:
        """How many threads have not come back for long after their handlers were given up."""
        now = time.monotonic()
        return sum(now - since > ENDING for since in self._away.values())

    def _drop(self, run: Run) -> None:
        self.desk.drop(run)
        for patient in self._patient.values():
            if run in patient:
                patient.remove(run)

    # The end of all

    def release_unstarted(self) -> None:
        """Give back what never began: it costs the job nothing."""
        for run in [*self.desk.take_held(), *self._waiting()]:
            self._drop(run)
            self.settle_unstarted(run, RELEASED)

    def busy(self) -> bool:
        """Whether a handler is at work."""
        return any(run.ended is None for run in self.desk.running())

    def at_work(self) -> str:
        """What runs, for a person."""
        return ", ".join(
            f"{run.leased.name} {run.leased.id} (for {run.ran / 1_000_000:.0f} s)"
            for run in self.desk.running()
            if run.ended is None
        )

    def interrupt(self, *, threads: bool) -> None:
        """Give back what runs; it may have been half-way, so that counts as a rescue."""
        for run in self.desk.running():
            if run.ended is None and (threads or run.task is not None):
                attempt = run.leased.attempts + 1
                why = plain("its worker was stopped while it ran", attempt, "duly.Stopped")
                self._give_up(run, interrupted(run.leased, why, random.random()))  # noqa: S311

    async def close(self, patience: float) -> None:
        """Wait for what was decided to be written, and for what was cancelled to end."""
        try:
            async with asyncio.timeout(max(patience, ENDING)):
                await self.recorder.flushed()  # first: what cannot be recorded is settled
                await self.settler.flushed()
        except TimeoutError:
            left = self.recorder.left + self.settler.left
            logger.error("%d jobs cannot be settled and are left to be rescued", left)
        if self._ending:
            await asyncio.wait(list(self._ending), timeout=ENDING)
        self.hands.close()


def buried(one: Settled, problem: StoreRefused) -> Settled:
    """What to write where the database never takes the end of a job: it is dead, and says why."""
    attempt = one.leased.attempts + 1
    error = plain(f"its end was refused: {problem}", attempt, "duly.StoreRefused")
    return one._replace(ended=Ended("dead", burnt=1, error=error))
