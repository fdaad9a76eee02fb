"""The states of a claim, a job and a message, and the one table each of how they follow each other.

Rule: nothing else in duly decides a transition. Each row below is one guarded statement; a move
that is not in the table matches no row of the database and changes nothing.

A claim starts ``done`` when the answer itself is the work (``dedup``, ``once`` in a transaction)
and ``held`` when a caller took a lease on it (``once(lease=...)``, ``fence``). There is no third
state for "expired" or "lapsed": that is the same row, read at a later time.

A job is ``ready`` from its enqueue until a worker leases it, and again after an error that is not
its last. What is ``done`` has left the table of jobs and is a row of the history. A message of the
outbox does the same, and is ``sent`` when it has left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar


class ClaimState(StrEnum):
    """What the row says. Time decides whether it still counts."""

    HELD = "held"
    DONE = "done"


class JobState(StrEnum):
    """The state of a job. Whether a ready one can be leased now is a matter of time."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"


class MessageState(StrEnum):
    """The state of a message of the outbox."""

    READY = "ready"
    LEASED = "leased"
    SENT = "sent"
    DEAD = "dead"


State = TypeVar("State", ClaimState, JobState, MessageState)


@dataclass(frozen=True, slots=True)
class Move(Generic[State]):
    """One allowed transition: the statement that makes it, and the guard it carries.

    Before is None where nothing is known yet, and after where nothing is left.
    """

    before: State | None
    after: State | None
    statement: str
    guard: str


CLAIM_MOVES = (
    Move(None, ClaimState.DONE, "claims_insert", "no row with this scope and digest"),
    Move(None, ClaimState.HELD, "claims_insert", "no row with this scope and digest"),
    Move(ClaimState.DONE, ClaimState.DONE, "claims_retake", "expired"),
    Move(ClaimState.DONE, ClaimState.HELD, "claims_retake", "expired"),
    Move(ClaimState.HELD, ClaimState.HELD, "claims_retake", "the lease has run out"),
    Move(ClaimState.HELD, ClaimState.DONE, "claims_retake", "the lease has run out"),
    Move(ClaimState.HELD, ClaimState.HELD, "claims_renew", "token and epoch are the newest"),
    Move(ClaimState.HELD, ClaimState.DONE, "claims_mark", "token and epoch are the newest"),
    # A released claim is one whose lease is over: the next caller takes it, with a higher epoch.
    Move(ClaimState.HELD, ClaimState.HELD, "claims_release", "token is the newest"),
    Move(ClaimState.DONE, ClaimState.HELD, "claims_release", "token is the newest"),
)

NEWEST = "leased, and token and epoch are the newest"
LOST = "the worker is gone or was silent for its lease, or the deadline has passed"
# Statements in a form for many make the same moves under the same guards.
JOB_MOVES = (
    Move(None, JobState.READY, "jobs_insert", "no job with this id"),
    Move(JobState.READY, JobState.READY, "jobs_stage", "set aside, and its time has come"),
    Move(JobState.READY, JobState.READY, "jobs_unpark", "parked, and its handler is known now"),
    Move(JobState.READY, JobState.LEASED, "jobs_take", "its time has come, and it was never lost"),
    Move(JobState.READY, JobState.LEASED, "jobs_take_rescued", "its time has come, after a rescue"),
    Move(JobState.LEASED, JobState.DONE, "jobs_done", NEWEST),
    Move(JobState.LEASED, JobState.READY, "jobs_return", NEWEST),
    Move(JobState.LEASED, JobState.DEAD, "jobs_bury", NEWEST),
    Move(JobState.LEASED, JobState.READY, "jobs_rescue", LOST),
    Move(JobState.LEASED, JobState.DEAD, "jobs_rescue", f"{LOST}; and this was its last rescue"),
    Move(JobState.DEAD, JobState.READY, "jobs_replay", "dead"),
    Move(JobState.DEAD, None, "jobs_discard", "dead"),
)

RUN_OUT = "the lease has run out"
# These statements are for many messages at once; each is moved under its own guard.
MESSAGE_MOVES = (
    Move(None, MessageState.READY, "outbox_insert", "no message with this id"),
    Move(MessageState.READY, MessageState.READY, "outbox_stage", "set aside, its time has come"),
    Move(MessageState.READY, MessageState.LEASED, "outbox_take", "its time has come"),
    Move(MessageState.LEASED, MessageState.SENT, "outbox_sent", NEWEST),
    Move(MessageState.LEASED, MessageState.READY, "outbox_return", NEWEST),
    Move(MessageState.LEASED, MessageState.DEAD, "outbox_bury", NEWEST),
    Move(MessageState.LEASED, MessageState.READY, "outbox_rescue", RUN_OUT),
    Move(
        MessageState.LEASED,
        MessageState.DEAD,
        "outbox_rescue",
        f"{RUN_OUT}; and this was its last rescue",
    ),
    Move(MessageState.DEAD, MessageState.READY, "outbox_replay", "dead"),
    Move(MessageState.DEAD, None, "outbox_discard", "dead"),
)
