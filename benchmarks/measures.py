"""What is measured: one piece of work each, the same words for every store, colour and side.

A side answers ``True`` where the claim was its own; each measure says which answer it expects, and
a side that answers otherwise ends the run: a fast wrong answer is not a rate.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from benchmarks.duels import Contender

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from concurrent.futures import ThreadPoolExecutor

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)
BATCH = 100
CALLERS = 16
# How many keys the duplicates repeat, and how many resources move forward.
KNOWN = 50


class Side(Protocol[Answer_co]):
    """The verbs of the ledger in one colour: a bool, or a bool to await."""

    def dedup(self, key: str) -> Answer_co:
        """Claim in a transaction of its own; True if first."""

    def dedup_many(self, keys: Sequence[str]) -> Answer_co:
        """Claim a batch in one transaction; True if first for every key."""

    def once(self, key: str) -> Answer_co:
        """Begin, savepoint, claim, release, commit on the caller's connection; True if first."""

    def lease(self, key: str) -> Answer_co:
        """Claim under a lease and commit, then mark done and commit; True if first."""

    def newer(self, resource: str, version: int) -> Answer_co:
        """Record a version in a transaction of its own; True if it was later than any."""


class Claims(Protocol[Answer_co]):
    """The part of a side that many callers share at once."""

    def dedup(self, key: str) -> Answer_co:
        """Claim in a transaction of its own; True if first."""


class Act(Protocol):
    """One piece of work, named by a number that no other has."""

    def __call__(self, side: Side[Answer], number: int, /) -> Answer:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One piece of work, the answer that is right, and for how many claims it counts.

    ``known`` pieces are done before anything is measured, whatever the answer.
    """

    name: str
    act: Act
    expected: bool = True
    known: int = 0
    weight: int = 1


def dedup_first(side: Claims[Answer], number: int) -> Answer:
    return side.dedup(f"evt_{number}")


def dedup_duplicate(side: Side[Answer], number: int) -> Answer:
    return side.dedup(f"evt_known_{number % KNOWN}")


def once(side: Side[Answer], number: int) -> Answer:
    return side.once(f"evt_{number}")


def lease(side: Side[Answer], number: int) -> Answer:
    return side.lease(f"evt_{number}")


def newer(side: Side[Answer], number: int) -> Answer:
    return side.newer(f"order_{number % KNOWN}", number)


def dedup_many(side: Side[Answer], number: int) -> Answer:
    return side.dedup_many([f"evt_{number}_{place}" for place in range(BATCH)])


FIRST = Measure("dedup-first", dedup_first)
MANY = Measure(f"dedup_many-{BATCH}", dedup_many, weight=BATCH)
MEASURES = (
    FIRST,
    Measure("dedup-duplicate", dedup_duplicate, expected=False, known=KNOWN),
    Measure("once", once),
    Measure("lease", lease),
    Measure("newer", newer),
    MANY,
)


def blocking(side: Side[bool], measure: Measure) -> Contender:
    """One caller, one piece of work after the other."""
    for number in range(measure.known):
        measure.act(side, number)

    def run(numbers: range) -> None:
        judge(measure, [measure.act(side, number) for number in numbers])

    return Contender(run, measure.weight)


def awaited(side: Side[Awaitable[bool]], measure: Measure, runner: asyncio.Runner) -> Contender:
    """The same in the runner's event loop."""

    async def known() -> None:
        for number in range(measure.known):
            await measure.act(side, number)

    async def work(numbers: range) -> None:
        judge(measure, [await measure.act(side, number) for number in numbers])

    runner.run(known())
    return Contender(lambda numbers: runner.run(work(numbers)), measure.weight)


def threads(side: Claims[bool], executor: ThreadPoolExecutor) -> Contender:
    """Many threads claim fresh keys at once."""

    def share(numbers: range) -> None:
        judge(FIRST, [dedup_first(side, number) for number in numbers])

    return Contender(lambda numbers: exhaust(executor.map(share, shares(numbers))))


def tasks(side: Claims[Awaitable[bool]], runner: asyncio.Runner) -> Contender:
    """Many tasks of one event loop claim fresh keys at once."""

    async def share(numbers: range) -> None:
        judge(FIRST, [await dedup_first(side, number) for number in numbers])

    async def work(numbers: range) -> None:
        await asyncio.gather(*map(share, shares(numbers)))

    return Contender(lambda numbers: runner.run(work(numbers)))


def shares(numbers: range) -> list[range]:
    """The numbers dealt out among the callers."""
    return [numbers[place::CALLERS] for place in range(CALLERS)]


def exhaust(results: Iterable[None]) -> None:
    """Wait for every caller, and raise what any of them raised."""
    for _ in results:
        pass


def judge(measure: Measure, answers: list[bool]) -> None:
    """End the run over a wrong answer."""
    if answers.count(measure.expected) != len(answers):
        raise AssertionError(f"{measure.name}: a claim was answered wrongly")
