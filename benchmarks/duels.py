"""Two contenders, alternating rounds: whatever disturbs the machine disturbs both.

Each contender is first warmed up, which also tells how much work fills a round. Then the two take
turns, and who begins changes with every round. A row reports the median rate of each and the
quotient of the two.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.report import Tell


@dataclass(frozen=True, slots=True)
class Contender:
    """One side: does the work numbered by a range; each number counts for ``weight`` units."""

    run: Callable[[range], None]
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Duel:
    """One row to be: two contenders at the same work, and the ratio that is hoped for."""

    name: str
    ours: Contender
    peer: Contender
    aim: float = 0.9


@dataclass(frozen=True, slots=True)
class Row:
    """What a duel showed: units per second, and the lowest and highest ratio of any one round."""

    name: str
    ours: float
    peer: float
    aim: float
    lowest: float
    highest: float

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer."""
        return self.ours / self.peer


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure."""

    rounds: int
    seconds: float  # of each side in each round
    warm_up: int  # numbers worked through before anything counts
    most: int  # numbers in a round, however fast


# Drivers prepare a statement when it comes for the sixth time.
LEAST = 6
# Many short rounds rather than few long ones: a disturbance then spoils rounds, not medians.
THOROUGH = Pace(rounds=41, seconds=0.025, warm_up=100, most=100_000)
QUICK = Pace(rounds=2, seconds=0.001, warm_up=60, most=20)


class Numbers:
    """Numbers that are never handed out twice in a run, so that a fresh key stays fresh."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        """The next ``count`` of them."""
        first, self._next = self._next, self._next + count
        return range(first, self._next)


def run_duels(duels: Sequence[Duel], pace: Pace, tell: Tell) -> list[Row]:
    """Run each duel to its end, one after the other."""
    numbers = Numbers()
    rows: list[Row] = []
    for duel in duels:
        rows.append(run_duel(duel, pace, numbers))
        tell(rows[-1])
    return rows


def run_duel(duel: Duel, pace: Pace, numbers: Numbers) -> Row:
    """Warm both up, let them alternate, and sum up."""
    counts = {side: round_size(side, pace, numbers) for side in (duel.ours, duel.peer)}
    rates: dict[Contender, list[float]] = {duel.ours: [], duel.peer: []}
    for first, second in turns(duel, pace.rounds):
        for side in (first, second):
            rates[side].append(rate(side, numbers.take(counts[side])))
    ours, peer = rates[duel.ours], rates[duel.peer]
    ratios = [one / other for one, other in zip(ours, peer, strict=True)]
    return Row(duel.name, median(ours), median(peer), duel.aim, min(ratios), max(ratios))


def turns(duel: Duel, rounds: int) -> Iterator[tuple[Contender, Contender]]:
    """Who goes first: the two take turns at that too."""
    for place in range(rounds):
        yield (duel.ours, duel.peer) if place % 2 == 0 else (duel.peer, duel.ours)


def round_size(side: Contender, pace: Pace, numbers: Numbers) -> int:
    """How many numbers fill a round, judged by the second half of the warm-up."""
    count = max(LEAST, pace.warm_up // side.weight)
    side.run(numbers.take(count))
    begun = time.perf_counter()
    probe = numbers.take(count)
    side.run(probe)
    fitting = pace.seconds * len(probe) / (time.perf_counter() - begun)
    return max(1, min(pace.most, int(fitting)))


def rate(side: Contender, numbers: range) -> float:
    """Units per second over these numbers."""
    begun = time.perf_counter()
    side.run(numbers)
    return len(numbers) * side.weight / (time.perf_counter() - begun)
