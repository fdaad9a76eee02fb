"""Making way for a job that was lost with its worker so often that it should run alone.

It may be what kills the process, and it may be a victim. Either way nothing should begin beside it.
But no job may stop a worker for long: one that does not become free in time takes it all the same,
and one that has run for a while is no longer suspected of ending its process at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.jobs.lease import POISON_RESCUES

if TYPE_CHECKING:
    from collections.abc import Iterable

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
