"""What ran, for a test to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from duly.core.failures import decode_failure
from duly.worker.stats import Worked

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.jobs.lease import LeasedJob
    from duly.jobs.outcome import JobOutcome

RunOutcome = Literal["done", "stale", "again", "dead", "lost"]


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a job.

    Args:
        name: of its handler.
        outcome: ``done``; ``stale``: passed over, a later version was applied before; ``again``: to
            be run again later; ``dead``: given up; ``lost``: another worker had taken it over.
        job: its id.
        attempt: 1 for the first.
        error: what went wrong, type and message; None where nothing did.
        traceback: where, as a dead job has it.
    """

    name: str
    outcome: RunOutcome
    job: str
    attempt: int
    error: str | None = None
    traceback: str | None = None

    def __repr__(self) -> str:
        error = "" if self.error is None else f": {self.error}"
        return f"<{self.name} {self.outcome} in attempt {self.attempt}{error}>"


class Runs(Sequence[Ran]):
    """What ran, in the order in which it ended."""

    def __init__(self, runs: Sequence[Ran]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> Ran: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...

    def __getitem__(self, index: int | slice) -> Ran | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def _names_with_outcome(self, outcome: RunOutcome) -> list[str]:
        return [run.name for run in self._runs if run.outcome == outcome]

    @property
    def done(self) -> list[str]:
        """The handlers of those that are done."""
        return self._names_with_outcome("done")

    @property
    def stale(self) -> list[str]:
        """The handlers of those that were passed over as stale."""
        return self._names_with_outcome("stale")

    @property
    def again(self) -> list[str]:
        """The handlers of those that will run again."""
        return self._names_with_outcome("again")

    @property
    def dead(self) -> list[str]:
        """The handlers of those that are dead."""
        return self._names_with_outcome("dead")

    @property
    def errors(self) -> list[str]:
        """The error of each run that failed."""
        return [run.error for run in self._runs if run.error is not None]

    @property
    def counts(self) -> dict[str, int]:
        """How many runs had which outcome."""
        return dict(Counter(run.outcome for run in self._runs))

    def __repr__(self) -> str:
        return f"<ran: {', '.join(map(repr, self._runs)) or 'nothing'}>"


class RecordingStats(Worked):
    """`Worked` that also reports each run."""

    __slots__ = ("_report",)

    def __init__(self, report: Callable[[Ran], None]) -> None:
        super().__init__()
        self._report = report

    def count(self, leased: LeasedJob, ended: JobOutcome, *, held: bool) -> None:
        """Count one run, and report it."""
        super().count(leased, ended, held=held)
        self._report(run_of_job(leased, ended, held=held))


def run_of_job(leased: LeasedJob, ended: JobOutcome, *, held: bool) -> Ran:
    """One run, as a test sees it."""
    kind: str = ended.outcome if ended.kind == "settled" else ended.kind
    failure = decode_failure(ended.error)
    return Ran(
        leased.name,
        kind if held else "lost",  # type: ignore[arg-type]  # one of these words
        leased.id,
        leased.attempts + 1,
        None if failure is None else f"{failure.type}: {failure.message}".rstrip(": "),
        None if failure is None else failure.traceback,
    )
