"""Making way for a job that was lost with its worker so often that it should run alone.

It may be what kills the process, and it may be a victim. Either way nothing should begin beside it.
But no job may stop a worker for long: one that does not become free in time takes it all the same,
and one that has run for a while is no longer suspected of ending its process at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.jobs.lease import POISON_RESCUES, RescueQuota

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.core.host import Host
    from duly.worker.execution import Execution

# Seconds for what runs to end before such a job is taken beside it.
DRAIN_SECONDS = 5.0
# Seconds after which others may begin beside it.
SUSPECT_SECONDS = 20.0


class Quarantine:
    """Whether this worker begins nothing because such a job is due."""

    def __init__(self, host: Host = HOST) -> None:
        self._host = host
        self._since: float | None = None

    def observe_due(self, rescued: int) -> bool:
        """Hear how often a job came back that is due; whether way must be made from now on."""
        if rescued < POISON_RESCUES:
            self._since = None
            return False
        begins = self._since is None
        self._since = self._since or self._host.monotonic()
        return begins

    def end(self) -> None:
        """It was taken, here or elsewhere."""
        self._since = None

    @property
    def is_due(self) -> bool:
        """Whether such a job is due."""
        return self._since is not None

    @property
    def is_draining(self) -> bool:
        """Whether nothing may begin until what runs has ended."""
        return self._since is not None and self._host.monotonic() - self._since < DRAIN_SECONDS


def has_isolated_job(runs: Iterable[Execution]) -> bool:
    """Whether a job runs beside which nothing else may begin yet."""
    return any(rescues >= POISON_RESCUES for rescues in rescues_of_suspects(runs))


def rescues_of_suspects(runs: Iterable[Execution]) -> list[int]:
    """How often those came back that may yet end their process: who ran for long will not now."""
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
        # One that came back twice is due, as far as is known; and it goes first where both are.
        self._twice_due = False
        self._twice_first = False
        # The last look found some of either kind.
        self._found = False

    @property
    def more(self) -> bool:
        """Whether more of them are believed to be due."""
        return self._found or self._twice_due

    def record_due(self, rescued: int) -> None:
        """Hear how often one came back that is due, at most."""
        self._twice_due = self._twice_due or rescued > 1

    def choose_turns(self, at_once: int, running_rescues: Sequence[int]) -> RescueQuota:
        """What to ask for, where so many could begin beside some that came back so often."""
        several = 0 if self.once_rescued_must_wait(running_rescues) else max(at_once, 0)
        return RescueQuota(
            several, lone=at_once > 0 and not running_rescues, lone_first=self._twice_first
        )

    def once_rescued_must_wait(self, running_rescues: Sequence[int]) -> bool:
        """Whether none that came back once may begin: one that did twice runs, or is next."""
        is_next = self._twice_due and self._twice_first
        return any(count > 1 for count in running_rescues) or (is_next and bool(running_rescues))

    def record_found(self, turns: RescueQuota, found: Sequence[int]) -> None:
        """Hear what was found of what was asked for: how often each came back."""
        if not turns:
            return
        self._found = bool(found)
        if 2 in found:
            self._twice_due, self._twice_first = True, False
        elif turns.lone and (turns.lone_first or not found):
            self._twice_due = False
        if 1 in found:
            self._twice_first = True
