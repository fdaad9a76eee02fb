"""Readiness: whether deliveries would be accepted now.

The probe commits a row, and opens a transaction the way an inline delivery does: the same slots,
the same pool, the user's ORM where ``begin=`` names one. It is bounded in time, shared by all who
ask, and its outcome is kept for a second, so that no number of probes loads the database.

A small write may find room where a delivery finds none: PostgreSQL reuses space in a table whose
file cannot grow. So a delivery that the store refused counts too, until one of its kind, inline or
not, is committed, or for `REMEMBERED` seconds: then the probe decides alone, and the senders' next
deliveries tell whether it is right.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Final, NamedTuple

from duly.core.defaults import WAIT
from duly.core.errors import DulyError, InProgress, StoreRefused, StoreUnavailable
from duly.core.onestep import finish
from duly.inbox.statements import META_WRITE
from duly.receiver.commit_queue import Overloaded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from duly.core.functions import Mode
    from duly.core.session import Runner, Session
    from duly.receiver.inline import InlineCommit

logger = logging.getLogger("duly")
# Seconds a probe may take: less than those who probe usually wait.
WITHIN: Final = WAIT.total_seconds()
# Seconds of these for the write: the probe can still name what it waited for.
WRITE_WITHIN: Final = 0.75 * WITHIN
# Seconds for which the outcome of a probe is the answer to every other.
FRESH: Final = 1.0
# Seconds for which a refused delivery is remembered where none was committed since.
REMEMBERED: Final = 10.0
# A probe that has not ended after so many seconds is given up, and another may begin; no more than
# this many are left hanging, since each may keep a connection.
STUCK: Final = 30.0
MOST_STUCK: Final = 2
# How many rows the probes of all processes share: they rarely wait for each other.
ROWS: Final = 16
NO_ANSWER, DISK_FULL, READ_ONLY, BUSY = "no_answer", "disk_full", "read_only", "busy"
UNAVAILABLE, REFUSED = "unavailable", "deliveries_refused"
# By SQLSTATE, and by the primary result code of SQLite: SQLITE_FULL, SQLITE_READONLY.
POSTGRES_REASONS: Final = {"53100": DISK_FULL, "25006": READ_ONLY}
SQLITE_REASONS: Final = {13: DISK_FULL, 8: READ_ONLY}


async def write_probe_row(session: Session) -> None:
    """Commit something that was not there before: SQLite writes no page that stays the same."""
    name = f"readiness_{secrets.randbelow(ROWS):02}"
    await session.rows(META_WRITE, name=name, value=str(time.time_ns()))


class Trouble(NamedTuple):
    """Why no delivery would be taken: a word for `/readyz`, and the details for the log alone."""

    reason: str
    detail: str


LATE: Final = Trouble(NO_ANSWER, f"no write was committed within {WITHIN:g} seconds")


def trouble_of(problem: BaseException) -> Trouble:
    """What an error says, the driver's own included."""
    if isinstance(problem, TimeoutError | asyncio.CancelledError):
        return LATE
    first = (str(problem).splitlines() or [""])[0]
    detail = first if isinstance(problem, DulyError) else f"{type(problem).__name__}: {first}"
    if isinstance(problem, InProgress | Overloaded):
        return Trouble(BUSY, detail)
    words = [word for one in causes(problem) if (word := reason_for(one)) is not None]
    return Trouble(words[0] if words else UNAVAILABLE, detail)


def reason_for(problem: BaseException) -> str | None:
    """The word for what a driver raised, where it has one."""
    said = getattr(problem, "sqlite_errorcode", None)
    if isinstance(said, int):
        return SQLITE_REASONS.get(said & 0xFF)
    return POSTGRES_REASONS.get(str(getattr(problem, "sqlstate", None)))


def causes(problem: BaseException) -> Iterator[BaseException]:
    """An error and those it was raised from, the driver's own last."""
    found: BaseException | None = problem
    while found is not None:
        yield found
        found = found.__cause__


class Probe:
    """One look at the database, and the future of those who wait for its outcome."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.outcome: Future[Trouble | None] = Future()


def ended_probe(outcome: Trouble | None) -> Probe:
    """A probe whose outcome is known already."""
    probe = Probe(0.0)
    probe.outcome.set_result(outcome)
    return probe


class Readiness:
    """What `/readyz` answers, for one application in one process."""

    def __init__(
        self,
        sync_runner: Runner,
        async_runner: Runner,
        inline: InlineCommit,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sync_runner = sync_runner
        self._async_runner = async_runner
        self._inline = inline
        self._seconds = seconds
        self._begin_process()

    def _begin_process(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._hanging: list[Probe] = []
        self._last: tuple[float, Trouble | None] | None = None
        # What the store refused last, inline or not; a commit of the same kind clears it.
        self.refused: dict[bool, tuple[float, Trouble]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_reason: str | None = None

    def note_refusal(self, problem: Exception, *, inline: bool) -> None:
        """A delivery was not committed; only what is the store's own trouble counts."""
        found = list(causes(problem))
        if any(isinstance(one, StoreRefused) for one in found):
            return  # these rows would be refused anywhere, and others would not
        trouble = trouble_of(problem)
        known = trouble.reason in (DISK_FULL, READ_ONLY)
        if known or any(isinstance(one, StoreUnavailable) for one in found):
            reason = trouble.reason if known else REFUSED
            self.refused[inline] = (self._seconds(), Trouble(reason, trouble.detail))

    async def check(self, modes: Collection[Mode]) -> str | None:
        """Why no delivery would be taken, in a word; None if one would. Returns in time.

        ``modes`` are those of the handlers of inline sources.
        """
        probe, new = self._join_probe()
        if new:
            task = asyncio.get_running_loop().create_task(self._run_probe(probe, modes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(WITHIN):
                found = await asyncio.shield(asyncio.wrap_future(probe.outcome))
        except TimeoutError:
            found = LATE
        return self._answer(found)

    def check_blocking(self, modes: Collection[Mode]) -> str | None:
        """The same on the calling thread, which waits for a thread of the probe's."""
        probe, new = self._join_probe()
        if new:
            threading.Thread(
                target=self._run_probe_blocking, args=(probe, modes), name="duly-ready", daemon=True
            ).start()
        try:
            found = probe.outcome.result(WITHIN)
        except FutureTimeout:
            found = LATE
        return self._answer(found)

    def _join_probe(self) -> tuple[Probe, bool]:
        """The probe to wait for, and whether the caller is to run it."""
        if self._process != os.getpid():  # a forked child has none of its parent's probes
            self._begin_process()
        now = self._seconds()
        with self._lock:
            if self._last is not None and now - self._last[0] < FRESH:
                return ended_probe(self._last[1]), False
            self._hanging = [one for one in self._hanging if not one.outcome.done()]
            if self._hanging:
                age = now - self._hanging[-1].begun
                if age < WITHIN:
                    return self._hanging[-1], False
                if age < STUCK or len(self._hanging) >= MOST_STUCK:
                    return ended_probe(LATE), False
            probe = Probe(now)
            self._hanging.append(probe)
            return probe, True

    async def _run_probe(self, probe: Probe, modes: Collection[Mode]) -> None:
        """Look, on the running event loop: the pools of ``begin=`` may belong to it."""
        outcome: Trouble | None = LATE
        try:
            async with asyncio.timeout(WITHIN):
                await self._async_runner.run_batch(write_probe_row, within=WRITE_WITHIN)
                for mode in modes:
                    await self._inline.receive([], mode)
            outcome = None
        except Exception as problem:  # no delivery would fare better
            outcome = trouble_of(problem)
        finally:  # a loop that ends cancels this, and others may wait
            self._settle(probe, outcome)

    def _run_probe_blocking(self, probe: Probe, modes: Collection[Mode]) -> None:
        """The same, on a thread."""
        outcome: Trouble | None = LATE
        try:
            finish(self._sync_runner.run_batch(write_probe_row, within=WRITE_WITHIN))
            for mode in modes:
                self._inline.receive_blocking([], mode)
            outcome = None
        except Exception as problem:
            outcome = trouble_of(problem)
        finally:
            self._settle(probe, outcome)

    def _settle(self, probe: Probe, outcome: Trouble | None) -> None:
        with self._lock:
            self._last = (self._seconds(), outcome)
        probe.outcome.set_result(outcome)

    def _answer(self, probed: Trouble | None) -> str | None:
        """The word, and a line in the log where it is another than before."""
        found = probed or self._recent_refusal()
        word = None if found is None else found.reason
        if word != self._last_reason:
            self._last_reason = word
            if found is None:
                logger.info("ready again")
            else:
                logger.warning("not ready: %s: %s", *found)
        return word

    def _recent_refusal(self) -> Trouble | None:
        """What refused a delivery lately, unless one of its kind was committed since."""
        now = self._seconds()
        lately = [found for when, found in self.refused.values() if now - when < REMEMBERED]
        return lately[0] if lately else None
