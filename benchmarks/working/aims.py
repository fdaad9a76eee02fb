"""What duly should be next to each peer, and whether it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ingesting.aims import Ratio
from benchmarks.working.contenders import CONTENDERS, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.working.contest import Row

# How many times the other's rate duly should reach; those with a batch to choose, at their best.
CEILINGS = {"drain": ("ceiling-batch", 0.6), "update": ("ceiling-tx", 0.7)}
BATCHED = "pgqueuer"
DRAIN = {BATCHED: 1.5}
DRAIN_OTHERS, UPDATE, LATENCY = 5.0, 2.0, 1.0


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Ours against each, measure by measure; a latency as the other's to ours: above 1 is good.

    What is enqueued one by one is told without an aim.
    """
    found = {row.name: row for row in rows if row.valid}
    for measure, what in (("drain", "rate"), ("update", "rate"), ("enqueue", "rate")):
        if ours := found.get(f"{OURS}/{measure}"):
            for peer, theirs in rivals(found, measure, what, max):
                aim = aim_of(measure, peer)
                yield Ratio(f"{OURS}:{peer}/{measure}", ours.of(what) / theirs, aim)
    if ours := found.get(f"{OURS}/latency"):
        for peer, theirs in rivals(found, "latency", "p50", min):
            yield Ratio(f"{OURS}:{peer}/latency", theirs / ours.of("p50"), LATENCY)


def rivals(
    found: dict[str, Row], measure: str, what: str, best: Callable[[list[float]], float]
) -> Iterator[tuple[str, float]]:
    """The best figure of each library or ceiling, by name."""
    figures: dict[str, list[float]] = {}
    for contender in CONTENDERS:
        row = found.get(f"{contender.name}/{measure}")
        if row is not None and contender.name != OURS:
            name = contender.player if contender.library else contender.name
            figures.setdefault(name, []).append(row.of(what))
    for name, seen in figures.items():
        yield name, best(seen)


def aim_of(measure: str, peer: str) -> float | None:
    """The aim of one ratio of rates, if there is one."""
    ceiling, least = CEILINGS.get(measure, ("", None))
    if peer == ceiling:
        return least
    return {"drain": DRAIN.get(peer, DRAIN_OTHERS), "update": UPDATE}.get(measure)
