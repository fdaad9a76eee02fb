"""How a run ends: what its result or its error means for the job.

A pure decision: the counters of the job, what the handler returned or raised, and a random draw
go in; what to write comes out.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from duly.core.clock import MICROSECOND
from duly.core.errors import InProgress, LeaseLost, StoreUnavailable, UsageError
from duly.core.failures import exception_record, reason_record
from duly.core.retry import RESCUE_BACKOFF, RESCUE_LIMIT, Backoff, Dead, NotYet, Outcome, Retry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.jobs.handlers import Handler
    from duly.jobs.lease import LeasedJob
    from duly.ledger.arguments import VersionAdvance

Kind = Literal["settled", "done", "stale", "again", "dead", "lost"]
# How long a job waits whose handler this process does not know: another may, or the next deploy.
PARKED = timedelta(minutes=1) // MICROSECOND


class JobOutcome(NamedTuple):
    """What is to be written about a run. ``settled`` and ``lost`` leave nothing to write."""

    kind: Kind
    delay: int = 0
    attempts_used: int = 0
    rescued: int = 0
    error: bytes | None = None
    parked: bool = False
    # What was written, where the run itself has done so.
    outcome: str = "done"
    # The version that the handler has applied, to be recorded together with the end.
    version: VersionAdvance | None = None


SETTLED = JobOutcome("settled")
DONE = JobOutcome("done")
STALE = JobOutcome("stale")
SETTLED_STALE = JobOutcome("settled", outcome="stale")
LOST = JobOutcome("lost")
RELEASED = JobOutcome("again")


class RunContext(NamedTuple):
    """What a decision needs beside the job and its handler."""

    now: int
    draw: float
    secrets: Sequence[str] = ()
    rescue_backoff: Backoff = RESCUE_BACKOFF


def outcome_of_run(
    leased: LeasedJob, handler: Handler, problem: BaseException, at: RunContext
) -> JobOutcome:
    """What an error, or an outcome that is no success, means for the job."""
    if isinstance(problem, LeaseLost) and problem.lease == leased.lease:
        return LOST
    if isinstance(problem, NotYet):
        return outcome_of_not_yet(leased, problem, at)
    if isinstance(problem, Dead):
        return JobOutcome(
            "dead",
            attempts_used=1,
            error=exception_record(problem, leased.attempts + 1, at.secrets),
        )
    nobodys = isinstance(problem, StoreUnavailable) or is_locked_out(leased, problem)
    if nobodys or is_serialization_failure(handler, problem):
        return outcome_of_interruption(
            leased, exception_record(problem, leased.attempts + 1, at.secrets), at
        )
    return outcome_of_failure(leased, handler, problem, at)


def is_locked_out(leased: LeasedJob, problem: BaseException) -> bool:
    """Whether somebody else's lock kept duly itself from writing down what the job does.

    That is nobody's error, unless the handler has the lock itself: so it counts as a rescue.
    """
    return isinstance(problem, InProgress) and problem.lease == leased.lease


def is_serialization_failure(handler: Handler, problem: BaseException) -> bool:
    """Whether PostgreSQL chose this transaction to end a deadlock or a conflict: none of it stays.

    That is nobody's error, but it may happen again and again, so it counts as a rescue.
    """
    cause: BaseException | None = problem
    while cause is not None:
        if "tx" in handler.wants and getattr(cause, "sqlstate", None) in ("40001", "40P01"):
            return True
        cause = cause.__cause__
    return False


def outcome_of_failure(
    leased: LeasedJob, handler: Handler, problem: BaseException, at: RunContext
) -> JobOutcome:
    """One attempt is used up: try again later, or give up."""
    attempt = leased.attempts + 1
    error = exception_record(problem, attempt, at.secrets)
    if attempt >= leased.max_attempts:
        return JobOutcome("dead", attempts_used=1, error=error)
    delay = handler.backoff.delay(attempt, at.draw)
    if isinstance(problem, Retry) and problem.after is not None:
        delay = problem.after // MICROSECOND
    return JobOutcome("again", delay=delay, attempts_used=1, error=error)


def outcome_of_not_yet(leased: LeasedJob, outcome: NotYet, at: RunContext) -> JobOutcome:
    """A prerequisite is missing: look again, until the deadline."""
    if at.now >= outcome.deadline(leased.due_at):
        reason = f"still not ready at its deadline: {outcome.reason or 'no reason was given'}"
        return JobOutcome(
            "dead", error=reason_record(reason, leased.attempts + 1, "duly.NotYet", at.secrets)
        )
    return JobOutcome("again", delay=outcome.after // MICROSECOND)


def outcome_of_interruption(leased: LeasedJob, error: bytes, at: RunContext) -> JobOutcome:
    """The run was ended from outside and may have been half-way: that counts as a rescue."""
    if leased.rescues + 1 >= RESCUE_LIMIT:
        return JobOutcome("dead", rescued=1, error=error)
    delay = at.rescue_backoff.delay(leased.rescues + 1, at.draw)
    return JobOutcome("again", delay=delay, rescued=1, error=error)


def outcome_of_timeout(leased: LeasedJob, handler: Handler, at: RunContext) -> JobOutcome:
    """The run took longer than its handler may."""
    limit = timedelta(microseconds=handler.timeout)
    problem = TimeoutError(f"handler {handler.name} ran longer than its timeout of {limit}")
    return outcome_of_failure(leased, handler, problem, at)


def outcome_of_unknown_handler(draw: float) -> JobOutcome:
    """Nobody here knows the handler; another worker may, or the next deploy."""
    return JobOutcome("again", delay=int(PARKED * (0.5 + draw / 2)), parked=True)


def as_problem(result: object) -> Outcome | None:
    """An outcome that was returned counts as if it had been raised."""
    if isinstance(result, type) and issubclass(result, Outcome):
        raise UsageError(
            f"a handler returned the class {result.__name__}: return {result.__name__}(…)"
        )
    return result if isinstance(result, Outcome) else None
