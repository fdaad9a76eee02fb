"""Which dead jobs to replay."""

from __future__ import annotations

from duly.core.errors import UsageError
from duly.jobs.dead import JobSelection
from duly.jobs.statements import JOBS_DEAD_IDS, JOBS_REPLAY
from duly.ledger.dead_filters import EVERYTHING, list_parameters
from duly.ledger.replay import ReplayPlan, gap_of


def plan_of(
    which: JobSelection, rate: object, *, dry_run: object, everything: object
) -> ReplayPlan:
    """What a caller asked for; all letters are replayed only if that is said."""
    if not isinstance(dry_run, bool) or not isinstance(everything, bool):
        raise UsageError("dry_run and all must be True or False")
    if which == JobSelection() and not everything:
        raise UsageError(
            "which dead letters? Give the id of one job, or ",
            *list_parameters("source", "type", "name", "since", "until"),
            "; or ",
            EVERYTHING,
            " for every one of them",
        )
    if which != JobSelection() and everything:
        raise UsageError(
            EVERYTHING, " means every dead letter: leave out the id and the filters, or it"
        )
    return ReplayPlan(JOBS_DEAD_IDS, JOBS_REPLAY, which, gap_of(rate), dry_run)
