"""What duly should be next to each peer, and whether it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ingesting.aims import Ratio
from benchmarks.working.contenders import BULK, CONTENDERS, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.working.contest import Row

# How many times the other's rate duly should reach; those with a batch to choose, at their best.
RIVAL, OTHERS = "pgqueuer", "others"
AIMS = {
    "drain": {"ceiling-batch": 0.6, RIVAL: 1.5, OTHERS: 5.0},
    "update": {"ceiling-tx": 1.0, RIVAL: 0.8, OTHERS: 2.0},
    BULK: {RIVAL: 4.0},
    "enqueue": {RIVAL: 1.0},
    "enqueue-bulk": {RIVAL: 1.0},
}
LATENCY = 1.0
# What is compared: its name, our measure, the others' measure, and the figure.
RATES = (
    ("drain", "drain", "drain", "rate"),
    ("update", "update", "update", "rate"),
    (BULK, BULK, "update", "rate"),
    ("enqueue", "enqueue", "enqueue", "rate"),
    ("enqueue-within", "enqueue", "enqueue", "within"),
    ("enqueue-bulk", "enqueue", "enqueue", "bulk"),
)


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Ours against each, measure by measure; a latency as the other's to ours: above 1 is good.

    What others' handlers do one by one is compared with our bulk handler, too.
    """
    found = {row.name: row for row in rows if row.valid}
    for name, measure, theirs, what in RATES:
        if ours := found.get(f"{OURS}/{measure}"):
            for peer, figure in rivals(found, theirs, what, max):
                aim = AIMS.get(name, {}).get(peer, AIMS.get(name, {}).get(OTHERS))
                yield Ratio(f"{OURS}:{peer}/{name}", ours.of(what) / figure, aim)
    if ours := found.get(f"{OURS}/latency"):
        for peer, figure in rivals(found, "latency", "p50", min):
            yield Ratio(f"{OURS}:{peer}/latency", figure / ours.of("p50"), LATENCY)


def rivals(
    found: dict[str, Row], measure: str, what: str, best: Callable[[list[float]], float]
) -> Iterator[tuple[str, float]]:
    """The best figure of each library or ceiling, by name."""
    figures: dict[str, list[float]] = {}
    for contender in CONTENDERS:
        row = found.get(f"{contender.name}/{measure}")
        if row is not None and contender.name != OURS and what in row.seen:
            name = contender.player if contender.library else contender.name
            figures.setdefault(name, []).append(row.of(what))
    for name, seen in figures.items():
        yield name, best(seen)
