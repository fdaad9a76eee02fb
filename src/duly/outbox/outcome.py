"""The outcome of an attempt to send: sent, retried or dead. Decided here and nowhere else."""

from __future__ import annotations

import email.utils
import re
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Literal

from duly.core.clock import MICROSECOND
from duly.core.errors import EgressRefused, UsageError
from duly.core.failures import exception_record, reason_record
from duly.core.retry import Dead, Outcome, Retry
from duly.outbox.lease import LOST_RELAY_RECORD, MOST_RESCUES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.retry import Backoff
    from duly.outbox.lease import LeasedMessage

# The other side is busy, restarting, or still at work on an earlier attempt (409 is what servers
# answer to an idempotency key that is in flight; 425 asks to come later).
TRANSIENT = frozenset({408, 409, 425, 429})
# What a receiver answers for one request, while it takes others.
OF_ONE_MESSAGE = frozenset({409, 425})
# What it answers for all requests: a Retry-After that comes with it is for every message.
OF_ALL = frozenset({429, 503})
# What a receiver answers to an unknown sender: mostly a signature that is missing or wrong.
UNKNOWN_TO_THEM = frozenset({401, 403})
# How long a message waits that this process cannot send: another may, or the next deploy.
PARKED = timedelta(minutes=1) // MICROSECOND
# And how long after it was first due it is dead, for an operator to look at.
PARKED_AT_MOST = timedelta(days=1) // MICROSECOND
# A longer Retry-After is ignored: then our own backoff decides.
LONGEST_PAUSE = 24 * 3600
SECONDS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The end of one attempt. Times are in microseconds.

    Args:
        kind: ``sent``, ``again`` or ``dead``.
        delay: until the next attempt.
        attempts_used: how many attempts it costs.
        rescued: how many rescues it counts as.
        error: what is recorded of it.
        unhealthy: whether the destination as a whole fails.
        answered: whether the destination answered.
        pause: the destination's Retry-After.
    """

    kind: Literal["sent", "again", "dead"]
    delay: int = 0
    attempts_used: int = 0
    rescued: int = 0
    error: bytes | None = None
    unhealthy: bool = False
    answered: bool = False
    pause: int | None = None


SENT = MessageOutcome("sent", answered=True)
# It was never started, or released by us: nothing is counted against it.
RELEASED = MessageOutcome("again")


class Answered(Exception):
    """The receiver answered, and not with success."""

    def __init__(self, status: int, retry_after: str | None, location: str | None) -> None:
        super().__init__(status)
        self.status = status
        self.retry_after = retry_after
        self.location = location

    def __str__(self) -> str:
        if 300 <= self.status < 400:
            where = f" to {self.location[:200]}" if self.location else ""
            return (
                f"the receiver answered {self.status}, a redirect{where}: redirects are not "
                "followed, send to where it leads"
            )
        return f"the receiver answered {self.status}"

    @property
    def transient(self) -> bool:
        """True if the same request may succeed later."""
        return self.status in TRANSIENT or self.status >= 500


class Unsigned(Exception):
    """A message could not be signed; that says nothing about its destination."""


class Unreached(Exception):
    """The receiver was not reached, or did not answer in time."""


class Unsendable(Exception):
    """A message that this process cannot send; another may, or the next deploy."""


class Stuck(Unsendable):
    """Nothing can be sent this way from this process any more: earlier calls hang."""


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What an outcome depends on: the time in microseconds, and a random draw from [0, 1)."""

    now: int
    draw: float
    secrets: Sequence[str] = ()


def outcome_of_attempt(
    leased: LeasedMessage, backoff: Backoff, problem: BaseException, at: AttemptContext
) -> MessageOutcome:
    """The outcome of an attempt that did not succeed."""
    attempt = leased.attempts + 1
    record = failure_record(problem, attempt, at.secrets, leased.signer)
    if isinstance(problem, Unsendable):  # another process may know how, or the next deploy
        delay = int(PARKED * (0.5 + at.draw / 2))
        if at.now - leased.due_at > PARKED_AT_MOST:
            return MessageOutcome("dead", error=record)
        return MessageOutcome(
            "again", delay=delay, error=record, unhealthy=isinstance(problem, Stuck)
        )
    unhealthy = is_destination_failure(problem)
    answered = not unhealthy and isinstance(problem, (Answered, Outcome))
    if isinstance(problem, (Dead, EgressRefused)) or is_permanent(problem):
        return MessageOutcome("dead", attempts_used=1, error=record, answered=answered)
    pause = requested_pause(problem, at.now)
    shared = pause if isinstance(problem, Answered) and problem.status in OF_ALL else None
    if attempt >= leased.max_attempts:
        return MessageOutcome(
            "dead",
            attempts_used=1,
            error=record,
            unhealthy=unhealthy,
            answered=answered,
            pause=shared,
        )
    delay = backoff.delay(attempt, at.draw)
    if pause is not None and isinstance(problem, Retry):
        delay = pause
    elif pause is not None:  # not earlier than asked, not all at once, and no way round the backoff
        delay = max(delay, pause + int(at.draw * min(delay, pause)))
    return MessageOutcome(
        "again", delay, 1, error=record, unhealthy=unhealthy, answered=answered, pause=shared
    )


def outcome_of_interruption(leased: LeasedMessage) -> MessageOutcome:
    """The outcome of a message whose relay stopped: it may have arrived, so it is a rescue."""
    if leased.rescues + 1 < MOST_RESCUES:
        return MessageOutcome("again", rescued=1)
    return MessageOutcome("dead", rescued=1, error=LOST_RELAY_RECORD)


def is_destination_failure(problem: BaseException) -> bool:
    """Return True if the destination fails, and not this message alone."""
    if isinstance(problem, Answered):
        return problem.transient and problem.status not in OF_ONE_MESSAGE
    return not isinstance(problem, (Outcome, Unsigned, UsageError))


def is_permanent(problem: BaseException) -> bool:
    """Return True if the receiver will never take this request."""
    return isinstance(problem, Answered) and not problem.transient


def failure_record(
    problem: BaseException, attempt: int, secrets: Sequence[str], signer: str | None
) -> bytes:
    """The record of a failure, with a traceback only of the user's own code."""
    if isinstance(problem, (Answered, EgressRefused, Outcome, Unreached, Unsendable)):
        text = f"{problem}{hint(problem, signer)}"
        return reason_record(text, attempt, f"duly.{type(problem).__name__}", secrets)
    return exception_record(problem, attempt, secrets)


def hint(problem: BaseException, signer: str | None) -> str:
    """A note on the signature, if the receiver did not know the sender."""
    if not isinstance(problem, Answered) or problem.status not in UNKNOWN_TO_THEM:
        return ""
    return f" (the message was {'not signed' if signer is None else f'signed by {signer}'})"


def requested_pause(problem: BaseException, now: int) -> int | None:
    """The pause that a `Retry` or a Retry-After asks for, in microseconds."""
    if isinstance(problem, Retry):
        return None if problem.after is None else problem.after // MICROSECOND
    if not isinstance(problem, Answered) or problem.retry_after is None:
        return None
    seconds = pause_of(problem.retry_after, now)
    if seconds is None or not 0 < seconds <= LONGEST_PAUSE:
        return None
    return int(seconds * 1_000_000)


def pause_of(text: str, now: int) -> float | None:
    """The seconds that a ``Retry-After`` asks for: a number, or a date."""
    text = text.strip()
    if SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - now / 1_000_000, 0.0)
