"""What a worker did: its counts, its log lines and the counters in the database."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.core.exports import export_type, old_names
from duly.core.failures import failure_reason
from duly.inbox.counters import PendingCounters, flush

if TYPE_CHECKING:
    from duly.core.session import Runner
    from duly.jobs.lease import LeasedJob
    from duly.jobs.outcome import JobOutcome
    from duly.worker.execution import Batch, Execution

logger = logging.getLogger("duly")
# A line for each run, as the access log has one for each delivery; at debug, for there are many.
run_log = logging.getLogger("duly.worker")


def log_execution(run: Execution, ended: JobOutcome, *, held: bool) -> None:
    """Log one run whose end is committed."""
    if not run_log.isEnabledFor(logging.DEBUG):
        return
    outcome = ended.outcome if ended.kind == "settled" else ended.kind
    members = {
        "job": run.id,
        "name": run.leased.name,
        "outcome": outcome if held else "lost",
        "milliseconds": round(run.duration / 1000, 1),
        "attempt": run.leased.attempts + 1,
    }
    size = 1 if run.batch is None else len(run.batch.members)
    run_log.debug(
        "job %s (%s): %s after %.1f ms, attempt %d of %d%s",
        *members.values(),
        run.leased.max_attempts,
        "" if size == 1 else f", in a batch of {size}",
        extra={"members": members if size == 1 else {**members, "batch": size}},
    )


def log_rolled_back(batch: Batch) -> None:
    """Log a batch whose jobs run one by one now."""
    if batch.lost:
        why = f"{len(batch.lost)} of their leases were lost"
    elif batch.error is None:
        why = "it took longer than its timeout"
    else:
        why = failure_reason(batch.error)
    logger.warning(
        "a batch of %d jobs (%s) was rolled back, and they run one by one: %s",
        len(batch.members),
        batch.leased.name,
        why,
    )


def log_retry(leased: LeasedJob, ended: JobOutcome) -> None:
    """Log a run that failed, and when the next one is."""
    if ended.error is None:
        return
    logger.warning(
        "job %s (%s) failed in attempt %d of %d, again in %.1f s: %s",
        leased.id,
        leased.name,
        leased.attempts + 1,
        leased.max_attempts,
        ended.delay / 1_000_000,
        failure_reason(ended.error),
    )


@export_type
@old_names("worked", again="retried")
@dataclass(slots=True)
class Worked:
    """What became of the jobs that a worker had.

    Args:
        done: finished.
        stale: passed over, because a later version of their resource was applied before.
        retried: failed, released or not yet due, and will run again.
        dead: out of attempts or rescues, or given up by their handler.
        lost: leased by another worker while they ran here; what they wrote was rolled back.
        rescued: taken back from workers that were lost.
        stuck: whether handlers that do not end make it necessary to start the process anew.
    """

    done: int = 0
    stale: int = 0
    retried: int = 0
    dead: int = 0
    lost: int = 0
    rescued: int = 0
    stuck: bool = False
    _tally: PendingCounters = field(default_factory=PendingCounters, repr=False, compare=False)

    def count(self, leased: LeasedJob, ended: JobOutcome, *, held: bool) -> None:
        """Count one run, and log a failure."""
        kind: str = ended.kind if held else "lost"
        if kind == "settled":
            kind = ended.outcome
        if kind == "done":
            self.done += 1
        elif kind == "stale":
            self.stale += 1
        elif kind == "again":
            self.retried += 1
            log_retry(leased, ended)
        elif kind == "dead":
            self.dead += 1
            logger.error(
                "job %s (%s) is dead after %d of %d attempts and %d rescues: %s. `duly jobs show` "
                "tells more",
                leased.id,
                leased.name,
                leased.attempts + ended.attempts_used,
                leased.max_attempts,
                leased.rescues + ended.rescued,
                failure_reason(ended.error),
            )
        else:
            self.lost += 1
            logger.warning(
                "the lease on job %s (%s) was lost, or it was settled before: what this run did "
                "without a transaction may be done again, what it did in one is kept once",
                leased.id,
                leased.name,
            )
        self._tally.count(leased.scope, f"job_{kind}")

    async def flush(self, runner: Runner) -> None:
        """Write the counters; what cannot be written now is kept for the next time."""
        tally, self._tally = self._tally, PendingCounters()
        if not tally:
            return
        try:
            await flush(runner, tally)
        except BaseException:
            self._tally.add(tally)
            raise
