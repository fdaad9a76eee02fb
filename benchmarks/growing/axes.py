"""What is varied, one thing at a time, and how far the cost may grow with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

# From the smallest of an axis to the largest; bodies are read, hashed and written, so they may.
AIM = 1.3
FREE = "bodies"


@dataclass(frozen=True, slots=True)
class Point:
    """One setting; all but the thing that is varied are as in `BASE`."""

    axis: str
    label: str
    place: float  # on the axis of the plot
    rows: int = 1_000  # of events, with their claims and the history of their jobs
    handlers: int = 1
    size: str = "usual"
    processes: int = 1

    @property
    def name(self) -> str:
        """The name of its row."""
        return f"{self.axis}/{self.label}"


BASE = Point("", "", 0)
ROWS, LARGE = (1_000, 10_000, 100_000, 1_000_000), 10_000_000
HANDLERS = (1, 8, 64)
# Names of `deliveries.SIZES`, and about how many KB they are.
BODIES = {"small": 0.34, "usual": 1.9, "16KB": 16, "64KB": 64, "256KB": 256}
PROCESSES = (1, 2, 4, 8)
UNITS = {
    "rows": "rows already there",
    "handlers": "handlers",
    "bodies": "KB of a body",
    "processes": "processes",
}
AXES = tuple(UNITS)


def points(axis: str, *, quick: bool, large: bool) -> list[Point]:
    """The points of an axis, the smallest first; the two smallest where it must be quick."""
    base = replace(BASE, axis=axis)
    found = {
        "rows": [
            replace(base, rows=rows, label=f"{rows:,}", place=rows)
            for rows in (*ROWS, *((LARGE,) if large else ()))
        ],
        "handlers": [
            replace(base, handlers=number, label=str(number), place=number) for number in HANDLERS
        ],
        "bodies": [
            replace(base, size=size, label=f"{kilobytes:g}KB", place=kilobytes)
            for size, kilobytes in BODIES.items()
        ],
        "processes": [
            replace(base, processes=number, label=str(number), place=number) for number in PROCESSES
        ],
    }[axis]
    return found[:2] if quick else found
