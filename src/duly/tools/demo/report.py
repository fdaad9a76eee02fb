"""The last page: the audit as a table, what happened in numbers, and what to read next."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from duly.tools.demo.audit import Check, Kind
from duly.tools.demo.line import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.tools.demo.audit import Found
    from duly.tools.demo.crew import Faults
    from duly.tools.demo.sender import SenderBooks

MARKS = ("✓", "✗")
PLAIN_MARKS = ("ok", "WRONG")


def marks(output: TextIO) -> tuple[str, str]:
    """The signs for a line that balances and for one that does not, as far as they can be shown."""
    try:
        "".join(MARKS).encode(output.encoding or "ascii")
    except UnicodeError:
        return PLAIN_MARKS
    return MARKS


def table(checks: Sequence[Check], signs: tuple[str, str]) -> list[str]:
    """The audit, one line for each check, in fewer than 80 columns."""
    return ["", *(row(check, signs) for check in checks), ""]


def row(check: Check, signs: tuple[str, str]) -> str:
    """One line: both sides, and whether they agree."""
    relation = ">=" if check.kind is Kind.BOUND else "="
    left, right = amount(check.left_value, check.kind), amount(check.right_value, check.kind)
    sign = signs[0] if check.balances else signs[1]
    return f"  {check.left:<12} {left:>12} {relation:>2} {check.right:<27} {right:>12}  {sign}"


def amount(value: int, kind: Kind) -> str:
    """A number as people write it."""
    return f"{value / 100:,.2f}" if kind is Kind.CENTS else f"{value:,}"


def story(found: Found, books: SenderBooks, faults: Faults) -> list[str]:
    """What happened, and who counted it."""
    told = books.answers.get
    return [
        f"Answers: {told(Outcome.FIRST, 0):,} first, {told(Outcome.DUPLICATE, 0):,} duplicate,",
        f"  {told(Outcome.LATER, 0):,} come back later, "
        f"{told(Outcome.REFUSED, 0):,} late and refused.",
        f"Faults: {faults.kills:,} kill -9 ({books.unanswered:,} cut a delivery off, "
        f"{books.first_untold:,} between COMMIT and answer),",
        f"  {faults.stops:,} stopped past the lease; {found.takeovers:,} leases taken over.",
        "Counted by the database: claims, effects, balance, takeovers; by the sender:",
        "  deliveries, answers, cut off (never answered); by who did it: kills, stops.",
        "",
    ]


def verdict(checks: Sequence[Check], events: int, kills: int) -> str:
    """The last sentence."""
    wrong = sum(1 for check in checks if not check.balances)
    if wrong:
        return f"{wrong} of {len(checks)} lines do not balance: this is a bug, please report it."
    return (
        f"Killed {kills:,} times, yet each of {events:,} events took effect once. Next: README.md"
    )
