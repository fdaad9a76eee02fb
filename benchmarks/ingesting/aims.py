"""What duly should be next to each peer, and whether it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.ingesting.contest import Row

# How many times the peer's rate duly should reach, under load and with a single connection.
BUSY = {"fastapi": 5.0, "cte": 2.5, "tuned": 1.7, "ceiling": 0.6}
ALONE = {"cte": 0.9}
AIMS = {1: ALONE, 16: {}, 64: BUSY, 256: BUSY}
OURS, USUAL = "duly", "fastapi"


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
    for ours in [row for row in rows if row.valid and row.name.split("/")[1] == OURS]:
        store, _, connections = ours.name.split("/")
        aims = AIMS.get(int(connections), {})
        for peer in BUSY:
            if theirs := found.get(f"{store}/{peer}/{connections}"):
                name = f"{store}/{OURS}:{peer}/{connections}"
                yield Ratio(name, ours.rate / theirs.rate, aims.get(peer))
        if theirs := found.get(f"{store}/{USUAL}/{connections}"):
            name = f"{store}/{OURS}-p99:{USUAL}-p50/{connections}"
            yield Ratio(name, theirs.p50 / ours.p99, 1.0 if aims is BUSY else None)
