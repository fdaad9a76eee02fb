"""What duly should be next to each loop by hand, and whether it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ingesting.aims import Ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.working.contest import Row

# Ours, the other, the measure, and how many times the other's rate ours should be, if that is said.
COMPARED: tuple[tuple[str, str, str, float | None], ...] = (
    ("duly", "loop", "relay", 5.0),
    ("duly", "pooled", "relay", 1.0),
    ("duly", "loop", "stage", None),
    ("duly-sqlite", "loop-sqlite", "relay", None),
    ("duly-sqlite", "loop-sqlite", "stage", None),
)


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Each comparison of which both sides were measured."""
    found = {row.name: row for row in rows if row.valid}
    for ours, other, measure, aim in COMPARED:
        mine, theirs = found.get(f"{ours}/{measure}"), found.get(f"{other}/{measure}")
        if mine and theirs:
            yield Ratio(f"{ours}:{other}/{measure}", mine.of("rate") / theirs.of("rate"), aim)
