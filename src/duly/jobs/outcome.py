"""The outcome of a run: what its result or its error means for the job.

Pure functions: the counters of the job, what the handler returned or raised, and a random draw go
in; the outcome to write comes out.
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

Kind = Literal["settled", "done", "stale", "again", "dead", "lost", "alone"]
# How long a job waits whose handler this process does not know: another may, or the next deploy.
PARKED = timedelta(minutes=1) // MICROSECOND


class JobOutcome(NamedTuple):
    """The outcome of a run. ``settled``, ``lost`` and ``alone`` leave nothing to write."""

    kind: Kind
    delay: int = 0
    attempts_used: int = 0
    rescued: int = 0
    error: bytes | None = None
    parked: bool = False
    # What was written, where the run settled itself.
    outcome: str = "done"
    # The version that the handler has applied, to be recorded together with the end.
    version: VersionAdvance | None = None


SETTLED = JobOutcome("settled")
DONE = JobOutcome("done")
STALE = JobOutcome("stale")
SETTLED_STALE = JobOutcome("settled", outcome="stale")
LOST = JobOutcome("lost")
RELEASED = JobOutcome("again")
# Of a batch that was rolled back: each of its jobs keeps its lease, and runs alone.
ALONE = JobOutcome("alone")


class RunContext(NamedTuple):
    """What an outcome depends on beside the job and its handler."""

    now: int
    draw: float
    secrets: Sequence[str] = ()
    rescue_backoff: Backoff = RESCUE_BACKOFF


def outcome_of_run(
    leased: LeasedJob, handler: Handler, problem: BaseException, at: RunContext
) -> JobOutcome:
    """The outcome of an error, or of a `Retry`, `NotYet` or `Dead`."""
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
    not_the_handlers = isinstance(problem, StoreUnavailable) or is_locked_out(leased, problem)
    if not_the_handlers or is_serialization_failure(handler, problem):
        return outcome_of_interruption(
            leased, exception_record(problem, leased.attempts + 1, at.secrets), at
        )
    return outcome_of_failure(leased, handler, problem, at)


def is_locked_out(leased: LeasedJob, problem: BaseException) -> bool:
    """Return True if a lock kept duly from recording an effect of the job.

    That is no failure of the handler, unless it has the lock itself: so it counts as a rescue.
    """
    return isinstance(problem, InProgress) and problem.lease == leased.lease


def is_serialization_failure(handler: Handler, problem: BaseException) -> bool:
    """Return True if PostgreSQL rolled the transaction back to end a deadlock or a conflict.

    That is no failure of the handler, but it may happen every time: so it counts as a rescue.
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
    """The outcome of a failed attempt: retry later, or dead."""
    attempt = leased.attempts + 1
    error = exception_record(problem, attempt, at.secrets)
    if attempt >= leased.max_attempts:
        return JobOutcome("dead", attempts_used=1, error=error)
    delay = handler.backoff.delay(attempt, at.draw)
    if isinstance(problem, Retry) and problem.after is not None:
        delay = problem.after // MICROSECOND
    return JobOutcome("again", delay=delay, attempts_used=1, error=error)


def outcome_of_not_yet(leased: LeasedJob, outcome: NotYet, at: RunContext) -> JobOutcome:
    """The outcome of a missing prerequisite: look again, until the deadline."""
    if at.now >= outcome.deadline(leased.due_at):
        reason = f"still not ready at its deadline: {outcome.reason or 'no reason was given'}"
        return JobOutcome(
            "dead", error=reason_record(reason, leased.attempts + 1, "duly.NotYet", at.secrets)
        )
    return JobOutcome("again", delay=outcome.after // MICROSECOND)


def outcome_of_interruption(leased: LeasedJob, error: bytes, at: RunContext) -> JobOutcome:
    """The outcome of a run that was ended from outside: it counts as a rescue."""
    if leased.rescues + 1 >= RESCUE_LIMIT:
        return JobOutcome("dead", rescued=1, error=error)
    delay = at.rescue_backoff.delay(leased.rescues + 1, at.draw)
    return JobOutcome("again", delay=delay, rescued=1, error=error)


def outcome_of_timeout(leased: LeasedJob, handler: Handler, at: RunContext) -> JobOutcome:
    """The outcome of a run that took longer than its handler may."""
    limit = timedelta(microseconds=handler.timeout)
    problem = TimeoutError(f"handler {handler.name} ran longer than its timeout of {limit}")
    return outcome_of_failure(leased, handler, problem, at)


def outcome_of_unknown_handler(draw: float) -> JobOutcome:
    """The outcome of a job whose handler only another worker, or the next deploy, knows."""
    return JobOutcome("again", delay=int(PARKED * (0.5 + draw / 2)), parked=True)


def as_problem(result: object) -> Outcome | None:
    """The outcome that a handler returned, to be raised; None for any other result."""
    if isinstance(result, type) and issubclass(result, Outcome):
        raise UsageError(
            f"a handler returned the class {result.__name__}: return {result.__name__}(…)"
        )
    return result if isinstance(result, Outcome) else None
