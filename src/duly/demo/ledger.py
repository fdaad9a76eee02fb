"""The ledger: what was sent against what took effect. Every line balances, or says which do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from duly.demo.books import ACKNOWLEDGED, FIRST, REPLAYED, SECOND, SENT
from duly.demo.events import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.demo.books import Books
    from duly.demo.crew import Faults
    from duly.demo.events import Catalog, Event
    from duly.demo.evidence import Evidence, Tally

# How many names a line shows that does not balance.
SHOWN = 5


class Unit(Enum):
    """What the two sides count."""

    COUNT = "a count"
    CENTS = "an amount of money"


@dataclass(frozen=True, slots=True)
class Line:
    """One equation."""

    left: str
    left_value: int
    right: str
    right_value: int
    examples: list[str] = field(default_factory=list)
    """What is wrong, by name: there may be some even where the numbers agree."""
    unit: Unit = Unit.COUNT

    @property
    def balances(self) -> bool:
        """Whether it holds."""
        return self.left_value == self.right_value and not self.examples


@dataclass(slots=True)
class Expected:
    """What must be there, counted once over all events."""

    sent: int = 0
    acknowledged: int = 0
    told_first: int = 0
    seconds: int = 0
    seconds_told: int = 0
    live: int = 0
    dying: int = 0
    gifts: int = 0
    messages: int = 0
    cents: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def complain(self, line: str, text: str) -> None:
        """Name an event that is wrong in a line."""
        named = self.wrong.setdefault(line, [])
        if len(named) < SHOWN:
            named.append(text)


def audited(evidence: Evidence, books: Books, catalog: Catalog, faults: Faults) -> list[Line]:
    """Every line of the ledger."""
    expected = Expected()
    for number, flags in enumerate(books.flags):
        if flags & SENT:
            see(expected, evidence, catalog.event(number), flags)
        else:
            see_unsent(expected, evidence, number)
    return [
        *of_deliveries(evidence, books, expected),
        *of_jobs(evidence, expected),
        *of_messages(evidence, expected),
        *of_leases(evidence, faults),
    ]


def see(expected: Expected, found: Evidence, event: Event, flags: int) -> None:
    """What one event that was sent must have led to."""
    expected.sent += 1
    expected.acknowledged += bool(flags & ACKNOWLEDGED)
    expected.told_first += bool(flags & FIRST)
    if event.kind is Kind.CONFLICT:
        expected.seconds += 2
        expected.seconds_told += bool(flags & SECOND) + bool(flags & REPLAYED)
    alive = not event.dies
    expected.live += alive
    expected.dying += not alive
    expected.gifts += event.gift
    expected.cents += event.amount if alive else 0
    once(expected, "inbox", event, found.inbox, 1)
    once(expected, "done", event, found.done, int(alive))
    once(expected, "dead", event, found.dead, int(not alive))
    once(expected, "effects", event, found.effects, int(alive))
    once(expected, "wrapped", event, found.wrapped, int(event.gift))
    once(expected, "seen_through", event, found.seen_through, int(event.gift))
    told = alive and event.tells
    expected.messages += told
    once(expected, "messages", event, found.messages, int(told))


def once(expected: Expected, line: str, event: Event, tally: Tally, times: int) -> None:
    """An event must be there so many times."""
    if tally.of(event.number) != times:
        told = f"{event.id} ({event.kind}): {tally.of(event.number)} instead of {times}"
        expected.complain(line, told)


def see_unsent(expected: Expected, found: Evidence, number: int) -> None:
    """Nothing may come from nowhere."""
    for line in ("inbox", "done", "dead", "effects", "wrapped", "seen_through", "messages"):
        tally: Tally = getattr(found, line)
        if tally.of(number):
            expected.complain(line, f"evt_{number} was never sent")


def named(expected: Expected, line: str, tally: Tally) -> list[str]:
    """What is wrong in a line, by name."""
    return [*expected.wrong.get(line, []), *tally.strange]


def of_deliveries(found: Evidence, books: Books, expected: Expected) -> Iterable[Line]:
    """What was sent, what was answered, what was remembered."""
    answers = books.answers
    refused = books.not_genuine["403"]
    unheard = sum(
        count for told, count in books.not_genuine.items() if told == "no reply" or told[0] == "5"
    )
    return [
        Line("deliveries", books.deliveries, "answered or no reply", sum(answers.values())),
        Line(
            "forged or too old", books.not_genuine.total(), "refused or no reply", refused + unheard
        ),
        none("wrong answers", books.wrong_count, books.wrong),
        Line("events sent", expected.sent, "acknowledged", expected.acknowledged),
        Line(
            "events sent", expected.sent, "in the inbox", found.inbox.total,
            named(expected, "inbox", found.inbox),
        ),
        Line("told accepted", answers["accepted"], "events they are for", expected.told_first),
        Line("conflicts sent", expected.seconds, "conflicts recorded", found.conflicts),
    ]  # fmt: skip


def of_jobs(found: Evidence, expected: Expected) -> Iterable[Line]:
    """What became of the events."""
    return [
        Line(
            "in the inbox", found.inbox.total, "done + dead", found.done.total + found.dead.total,
            named(expected, "done", found.done),
        ),
        Line(
            "poison and killers", expected.dying, "dead", found.dead.total,
            named(expected, "dead", found.dead),
        ),
        Line(
            "done", found.done.total, "effects", found.effects.total,
            named(expected, "effects", found.effects),
        ),
        Line(
            "amounts of those done", expected.cents, "balance", found.figures["balance"],
            [f"evt_{number}: {cents} cents" for number, cents in found.amounts.items()],
            Unit.CENTS,
        ),
        Line("effects", found.effects.total, "counted beside them", found.figures["counted"]),
        Line(
            "gifts", expected.gifts, "wrapped", found.wrapped.total,
            named(expected, "wrapped", found.wrapped),
        ),
        Line(
            "wrapped", found.wrapped.total, "seen through by a worker", found.seen_through.total,
            named(expected, "seen_through", found.seen_through),
        ),
        none("jobs left", found.figures["pending"]),
        Line("replayed", found.replayed, "dead letters that came back", found.figures["came_back"]),
        none("forbidden transitions", found.figures["breaches"]),
    ]  # fmt: skip


def of_messages(found: Evidence, expected: Expected) -> Iterable[Line]:
    """What was told to others."""
    staged = found.figures["sent_messages"] + found.figures["unsent"]
    return [
        Line("messages of those done", expected.messages, "messages staged", staged),
        Line(
            "messages staged", staged, "ids seen downstream", found.messages.total,
            named(expected, "messages", found.messages),
        ),
        Line("messages staged", staged, "marked as sent, once", found.figures["sent"]),
    ]  # fmt: skip


def of_leases(found: Evidence, faults: Faults) -> Iterable[Line]:
    """What late workers tried, and what was left behind."""
    late = found.late
    return [
        Line("late acks tried", late.tried, "late acks refused", late.refused, late.accepted),
        none("effects of a late ack", len(found.stale_effects), found.stale_effects),
        none("lease tokens repeated", found.figures["tokens"]),
        none("leases left", found.figures["leased"]),
        none("locks, connections left", found.leftovers),
        none("processes that failed", len(faults.failures), faults.failures),
    ]


def none(what: str, count: int, examples: Iterable[str] = ()) -> Line:
    """A line for what may not be."""
    return Line(what, count, "allowed", 0, list(examples))
