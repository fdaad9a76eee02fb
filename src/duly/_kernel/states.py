"""The states of a claim, and the one table of how they follow each other.

Rule: nothing else in duly decides a transition. Each row below is one guarded statement; a move
that is not in the table matches no row of the database and changes nothing.

A claim starts ``done`` when the answer itself is the work (``dedup``, ``once`` in a transaction)
and ``held`` when somebody took a lease on it (``once(lease=...)``, ``fence``). There is no third
state for "expired" or "lapsed": that is the same row, read at a later time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ClaimState(StrEnum):
    """What the row says. Time decides whether it still counts."""

    HELD = "held"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Move:
    """One allowed transition: the statement that makes it, and the guard it carries."""

    before: ClaimState | None
    after: ClaimState
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
