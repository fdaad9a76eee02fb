"""What duly should be next to each peer, and whether it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.ingesting.contenders import MOUNTED, SERVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.ingesting.contest import Row

PEERS, USUAL = ("fastapi", "cte", "tuned", "ceiling"), "fastapi"
# A p99 below the usual one's p50, told as the other's p50 to ours.
TAIL = "p99"
# How many times the peer's rate each of ours should reach on a store, with so many connections.
ALONE, BUSY = (1,), (64, 256)
AIMS = {
    ("postgres", SERVED, ALONE): {"cte": 0.9},
    ("postgres", SERVED, BUSY): {"ceiling": 0.95, "tuned": 1.7, "fastapi": 5.0, TAIL: 1.0},
    ("postgres", MOUNTED, BUSY): {"ceiling": 0.6},
    ("sqlite", SERVED, BUSY): {"ceiling": 0.6, "tuned": 3.0},
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """duly against one peer; without an aim it is only told."""

    name: str
    ratio: float
    aim: float | None

    @property
    def met(self) -> bool | None:
        """Whether the aim was reached; None without one."""
        return None if self.aim is None else self.ratio >= self.aim


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Rates against each peer of the same store and connections; then latencies.

    A latency is told as the other's p50 to our p99: above 1, our slow ones beat its usual ones.
    """
    found = {row.name: row for row in rows if row.valid}
    for name, row in found.items():
        store, ours, connections = name.split("/")
        if ours not in (SERVED, MOUNTED):
            continue
        aims = aims_of(store, ours, int(connections))
        for peer in PEERS:
            if theirs := found.get(f"{store}/{peer}/{connections}"):
                told = f"{store}/{ours}:{peer}/{connections}"
                yield Ratio(told, row.rate / theirs.rate, aims.get(peer))
        if theirs := found.get(f"{store}/{USUAL}/{connections}"):
            told = f"{store}/{ours}-p99:{USUAL}-p50/{connections}"
            yield Ratio(told, theirs.p50 / row.p99, aims.get(TAIL))


def aims_of(store: str, ours: str, connections: int) -> dict[str, float]:
    """The aims of one of our rows, by peer."""
    for (where, who, numbers), aims in AIMS.items():
        if (where, who) == (store, ours) and connections in numbers:
            return aims
    return {}
