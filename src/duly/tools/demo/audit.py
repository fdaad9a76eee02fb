"""The audit: what the sender says it sent, what the workers answered, what the database holds.

Every line is exact: it balances or it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from duly.tools.demo.events import SCOPE
from duly.tools.demo.line import Outcome

if TYPE_CHECKING:
    import sqlite3

    from duly.tools.demo.crew import Faults
    from duly.tools.demo.sender import SenderBooks

CLAIMS = "SELECT key_text, epoch, state FROM duly_claims WHERE scope = ?"


class Kind(Enum):
    """How the two sides of a line compare, and what they count."""

    COUNTS = "two counts that are equal"
    CENTS = "two amounts of money that are equal"
    BOUND = "a count, and one that may not exceed it"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the audit."""

    left: str
    left_value: int
    right: str
    right_value: int
    kind: Kind = Kind.COUNTS

    @property
    def balances(self) -> bool:
        """Whether the line holds."""
        if self.kind is Kind.BOUND:
            return self.left_value >= self.right_value
        return self.left_value == self.right_value


@dataclass(frozen=True, slots=True)
class Found:
    """What the database holds."""

    effects: list[tuple[str, int, int]]
    """Event, amount and the epoch under which it was written, for every row."""
    done: dict[str, int]
    """The epoch of every claim that is done, by its event."""
    held: int
    balance: int

    @property
    def takeovers(self) -> int:
        """How often a lease was taken from somebody: each makes the epoch grow by one."""
        return sum(epoch - 1 for epoch in self.done.values())


def read(connection: sqlite3.Connection) -> Found:
    """Read everything the audit looks at."""
    claims = connection.execute(CLAIMS, (SCOPE,)).fetchall()
    [balance] = connection.execute("SELECT sum(balance) FROM accounts").fetchone()
    return Found(
        effects=connection.execute("SELECT event, amount, epoch FROM effects").fetchall(),
        done={event: epoch for event, epoch, state in claims if state == "done"},
        held=sum(1 for _, _, state in claims if state == "held"),
        balance=balance,
    )


def audit(found: Found, books: SenderBooks, faults: Faults) -> list[Check]:
    """Every line of the audit."""
    return [*against_the_database(found, books), *against_the_answers(found, books, faults)]


def against_the_database(found: Found, books: SenderBooks) -> list[Check]:
    """What was sent against what is there: nothing lost, nothing twice, nothing from nowhere."""
    sent, rows = len(books.events), len(found.effects)
    distinct = {event for event, _, _ in found.effects}
    strange = sum(1 for event, amount, _ in found.effects if books.events.get(event) != amount)
    stale = sum(1 for event, _, epoch in found.effects if found.done.get(event) != epoch)
    return [
        Check("events sent", sent, "claims done", len(found.done)),
        Check("events sent", sent, "effects", rows),
        Check("events sent", sent, "events with an effect", len(distinct)),
        Check("amounts sent", sum(books.events.values()), "balance", found.balance, Kind.CENTS),
        Check("allowed", 0, "effects twice", rows - len(distinct)),
        Check("allowed", 0, "effects lost", len(books.events.keys() - distinct)),
        Check("allowed", 0, "effects from nowhere", strange),
        Check("allowed", 0, "effects not by newest lease", stale),
        Check("allowed", 0, "claims still held", found.held),
    ]


def against_the_answers(found: Found, books: SenderBooks, faults: Faults) -> list[Check]:
    """What the sender was told against what it sent and what is there."""
    first = books.answers.get(Outcome.FIRST, 0)
    answered = sum(books.answers.values())
    return [
        Check("allowed", 0, "events never acknowledged", books.unacknowledged),
        Check(
            "effects", len(found.effects), "told first + told nobody", first + books.first_untold
        ),
        Check("deliveries", books.deliveries, "answered + cut off", answered + books.unanswered),
        Check("kill -9", faults.kills, "deliveries cut off", books.unanswered, Kind.BOUND),
    ]
