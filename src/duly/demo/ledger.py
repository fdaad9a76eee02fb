"""The ledger: what was sent against what took effect. A line that does not balance has examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from duly.demo.events import EventKind
from duly.demo.sender_log import ACKNOWLEDGED, FIRST, SENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.demo.events import Catalog, StormEvent
    from duly.demo.evidence import Evidence, Tally
    from duly.demo.processes import Faults
    from duly.demo.sender_log import SenderLog

# How many examples a line shows.
SHOWN = 5


class Unit(Enum):
    """What the two sides of a line count."""

    COUNT = "a count"
    CENTS = "an amount of money"


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One equation."""

    left: str
    left_value: int
    right: str
    right_value: int
    examples: list[str] = field(default_factory=list)
    """What is wrong, by name: there may be some even where the counts agree."""
    unit: Unit = Unit.COUNT

    @property
    def balances(self) -> bool:
        """Return True if the line holds."""
        return self.left_value == self.right_value and not self.examples


@dataclass(slots=True)
class ExpectedCounts:
    """What must be there, counted over all events."""

    sent: int = 0
    acknowledged: int = 0
    answered_first: int = 0
    conflicts: int = 0
    live: int = 0
    dying: int = 0
    gifts: int = 0
    messages: int = 0
    cents: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def record_mismatch(self, line: str, text: str) -> None:
        """Add an example to a line."""
        named = self.wrong.setdefault(line, [])
        if len(named) < SHOWN:
            named.append(text)


def audit_ledger(
    evidence: Evidence, log: SenderLog, catalog: Catalog, faults: Faults
) -> list[LedgerLine]:
    """Return every line of the ledger."""
    expected = ExpectedCounts()
    for number, flags in enumerate(log.flags):
        if flags & SENT:
            expect_event(expected, evidence, catalog.event(number), flags)
        else:
            expect_nothing(expected, evidence, number)
    return [
        *delivery_lines(evidence, log, expected),
        *job_lines(evidence, expected),
        *message_lines(evidence, expected),
        *lease_lines(evidence, faults),
    ]


def expect_event(expected: ExpectedCounts, found: Evidence, event: StormEvent, flags: int) -> None:
    """Add what an event that was sent must have led to."""
    expected.sent += 1
    expected.acknowledged += bool(flags & ACKNOWLEDGED)
    expected.answered_first += bool(flags & FIRST)
    if event.kind is EventKind.CONFLICT:
        expected.conflicts += 2
    alive = not event.dies
    expected.live += alive
    expected.dying += not alive
    expected.gifts += event.gift
    expected.cents += event.amount if alive else 0
    expect_times(expected, "inbox", event, found.inbox, 1)
    expect_times(expected, "done", event, found.done, int(alive))
    expect_times(expected, "dead", event, found.dead, int(not alive))
    expect_times(expected, "effects", event, found.effects, int(alive))
    expect_times(expected, "wrapped", event, found.wrapped, int(event.gift))
    expect_times(expected, "seen_through", event, found.seen_through, int(event.gift))
    sends = alive and event.sends_message
    expected.messages += sends
    expect_times(expected, "messages", event, found.messages, int(sends))


def expect_times(
    expected: ExpectedCounts, line: str, event: StormEvent, tally: Tally, times: int
) -> None:
    """Add an example unless an event was seen so many times."""
    if tally.count_of(event.number) != times:
        text = f"{event.id} ({event.kind}): {tally.count_of(event.number)} instead of {times}"
        expected.record_mismatch(line, text)


def expect_nothing(expected: ExpectedCounts, found: Evidence, number: int) -> None:
    """Add an example for every trace of an event that was never sent."""
    for line in ("inbox", "done", "dead", "effects", "wrapped", "seen_through", "messages"):
        tally: Tally = getattr(found, line)
        if tally.count_of(number):
            expected.record_mismatch(line, f"evt_{number} was never sent")


def examples_of(expected: ExpectedCounts, line: str, tally: Tally) -> list[str]:
    """Return the examples of a line."""
    return [*expected.wrong.get(line, []), *tally.strange]


def delivery_lines(
    found: Evidence, log: SenderLog, expected: ExpectedCounts
) -> Iterable[LedgerLine]:
    """Return the lines about what was sent, answered and recorded."""
    answers = log.answers
    refused = log.not_genuine["403"]
    no_reply = sum(
        count for word, count in log.not_genuine.items() if word == "no reply" or word[0] == "5"
    )
    return [
        LedgerLine("deliveries", log.deliveries, "answered or no reply", sum(answers.values())),
        LedgerLine(
            "forged or too old", log.not_genuine.total(), "refused or no reply", refused + no_reply
        ),
        zero_line("wrong answers", log.wrong_count, log.wrong),
        LedgerLine("events sent", expected.sent, "acknowledged", expected.acknowledged),
        LedgerLine(
            "events sent", expected.sent, "in the inbox", found.inbox.total,
            examples_of(expected, "inbox", found.inbox),
        ),
        LedgerLine(
            "told accepted", answers["accepted"], "events they are for", expected.answered_first
        ),
        LedgerLine("conflicts sent", expected.conflicts, "conflicts recorded", found.conflicts),
    ]  # fmt: skip


def job_lines(found: Evidence, expected: ExpectedCounts) -> Iterable[LedgerLine]:
    """Return the lines about what became of the events."""
    return [
        LedgerLine(
            "in the inbox", found.inbox.total, "done + dead", found.done.total + found.dead.total,
            examples_of(expected, "done", found.done),
        ),
        LedgerLine(
            "poison and killers", expected.dying, "dead", found.dead.total,
            examples_of(expected, "dead", found.dead),
        ),
        LedgerLine(
            "done", found.done.total, "effects", found.effects.total,
            examples_of(expected, "effects", found.effects),
        ),
        LedgerLine(
            "amounts of those done", expected.cents, "balance", found.figures["balance"],
            [f"evt_{number}: {cents} cents" for number, cents in found.amounts.items()],
            Unit.CENTS,
        ),
        LedgerLine("effects", found.effects.total, "counted beside them", found.figures["counted"]),
        LedgerLine(
            "gifts", expected.gifts, "wrapped", found.wrapped.total,
            examples_of(expected, "wrapped", found.wrapped),
        ),
        LedgerLine(
            "wrapped", found.wrapped.total, "seen through by a worker", found.seen_through.total,
            examples_of(expected, "seen_through", found.seen_through),
        ),
        zero_line("jobs left", found.figures["pending"]),
        LedgerLine(
            "replayed",
            found.replayed,
            "dead letters that came back",
            found.figures["came_back"],
        ),
        zero_line("forbidden transitions", found.figures["breaches"]),
    ]  # fmt: skip


def message_lines(found: Evidence, expected: ExpectedCounts) -> Iterable[LedgerLine]:
    """Return the lines about messages sent downstream."""
    staged = found.figures["sent_messages"] + found.figures["unsent"]
    return [
        LedgerLine("messages of those done", expected.messages, "messages staged", staged),
        LedgerLine(
            "messages staged", staged, "ids seen downstream", found.messages.total,
            examples_of(expected, "messages", found.messages),
        ),
        LedgerLine("messages staged", staged, "marked as sent, once", found.figures["sent"]),
    ]  # fmt: skip


def lease_lines(found: Evidence, faults: Faults) -> Iterable[LedgerLine]:
    """Return the lines about lost leases, and what was left behind."""
    late = found.late
    return [
        LedgerLine(
            "late acks tried", late.answered_count, "late acks refused", late.refused, late.accepted
        ),
        zero_line("effects of a late ack", len(found.stale_effects), found.stale_effects),
        zero_line("lease tokens repeated", found.figures["tokens"]),
        zero_line("leases left", found.figures["leased"]),
        zero_line("locks, connections left", found.leftovers),
        zero_line("processes that failed", len(faults.failures), faults.failures),
    ]


def zero_line(what: str, count: int, examples: Iterable[str] = ()) -> LedgerLine:
    """Return a line for what must not happen."""
    return LedgerLine(what, count, "allowed", 0, list(examples))
