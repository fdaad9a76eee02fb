"""Fairness of rescued jobs: which run together, and which run alone.

A job that was lost with its worker several times may be what kills the process, or a victim.
Either way nothing should start beside it. But no job may stop a worker for long: a worker that
does not become free in time runs it all the same, and a job that has run for a while is no longer
suspected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.jobs.lease import POISON_RESCUES, RescueQuota

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.core.host import Host
    from duly.worker.execution import Execution

# Seconds for running jobs to end before such a job is started beside them.
DRAIN_SECONDS = 5.0
# Seconds after which other jobs may start beside it.
SUSPECT_SECONDS = 20.0


class Quarantine:
    """Whether this worker starts nothing because a job that must run alone is due."""

    def __init__(self, host: Host = HOST) -> None:
        self._host = host
        self._since: float | None = None

    def observe_due(self, rescued: int) -> bool:
        """Note the most rescues of any due job; return True if draining begins now."""
        if rescued < POISON_RESCUES:
            self._since = None
            return False
        begins = self._since is None
        self._since = self._since or self._host.monotonic()
        return begins

    def end(self) -> None:
        """The job was leased, here or elsewhere."""
        self._since = None

    @property
    def is_due(self) -> bool:
        """True if a job that must run alone is due."""
        return self._since is not None

    @property
    def is_draining(self) -> bool:
        """True while nothing may start until running jobs have ended."""
        return self._since is not None and self._host.monotonic() - self._since < DRAIN_SECONDS


def has_isolated_job(runs: Iterable[Execution]) -> bool:
    """True if a job runs beside which nothing may start yet."""
    return any(rescues >= POISON_RESCUES for rescues in rescues_of_suspects(runs))


def rescues_of_suspects(runs: Iterable[Execution]) -> list[int]:
    """The rescues of running jobs that may still kill the process: those that began just now."""
    return [
        run.leased.rescues
        for run in runs
        if run.leased.rescues and run.ended is None and run.elapsed < SUSPECT_SECONDS * 1_000_000
    ]


class RescueTurns:
    """Which rescued jobs of one queue start next: several rescued once, or one rescued twice.

    Once-rescued jobs run beside each other. A twice-rescued one runs beside no other rescued job,
    so the two kinds take turns: else a steady supply of one kind would starve the other.
    """

    def __init__(self) -> None:
        # A twice-rescued job is believed to be due; and it goes first where both kinds are.
        self._twice_due = False
        self._twice_first = False
        # The last fetch found some of either kind.
        self._found = False

    @property
    def more(self) -> bool:
        """True if more rescued jobs are believed to be due."""
        return self._found or self._twice_due

    def record_due(self, rescued: int) -> None:
        """Note the most rescues of any due job."""
        self._twice_due = self._twice_due or rescued > 1

    def choose_turns(self, at_once: int, running_rescues: Sequence[int]) -> RescueQuota:
        """How many rescued jobs to fetch, with so many free slots beside these running ones."""
        several = 0 if self.once_rescued_must_wait(running_rescues) else max(at_once, 0)
        return RescueQuota(
            several, lone=at_once > 0 and not running_rescues, lone_first=self._twice_first
        )

    def once_rescued_must_wait(self, running_rescues: Sequence[int]) -> bool:
        """True while once-rescued jobs must wait for a twice-rescued one."""
        is_next = self._twice_due and self._twice_first
        return any(count > 1 for count in running_rescues) or (is_next and bool(running_rescues))

    def record_found(self, turns: RescueQuota, found: Sequence[int]) -> None:
        """Note the rescues of the jobs that were fetched under this quota."""
        if not turns:
            return
        self._found = bool(found)
        if 2 in found:
            self._twice_due, self._twice_first = True, False
        elif turns.lone and (turns.lone_first or not found):
            self._twice_due = False
        if 1 in found:
            self._twice_first = True
