"""The plot: a picture for each axis, written as SVG by hand, for there are only lines in it."""

from __future__ import annotations

from html import escape
from math import log
from typing import TYPE_CHECKING

from benchmarks.growing.axes import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.growing.contest import Row

WIDTH, HEIGHT, COLUMNS = 480, 300, 2
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 60
# Both are told apart on paper, too: by the dash and by the name at the line.
LINES = {"ingest": ("#1f6feb", "none"), "drain": ("#c2410c", "6 4")}
MICRO = 1e6


def svg(rows: Sequence[Row]) -> str:
    """All pictures, two beside each other."""
    axes = list(dict.fromkeys(row.point.axis for row in rows))
    down = -(-len(axes) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * min(COLUMNS, len(axes))}" '
        f'height="{HEIGHT * down}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, axis in enumerate(axes):
        x, y = WIDTH * (number % COLUMNS), HEIGHT * (number // COLUMNS)
        shown = [row for row in rows if row.point.axis == axis and row.valid]
        parts += [f'<g transform="translate({x} {y})">', *picture(axis, shown), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def picture(axis: str, rows: Sequence[Row]) -> list[str]:
    """One axis: the cost of a delivery and of a job, from zero, over what is varied."""
    title = f"processor time over {UNITS[axis]}"
    parts = [f'<text x="{LEFT}" y="20" font-size="13">{escape(title)}</text>']
    if not rows:
        return parts
    figures = {
        "ingest": [row.ingest.cost * MICRO for row in rows],
        "drain": [row.drain.cost * MICRO for row in rows],
    }
    top = round_up(max(max(costs) for costs in figures.values()))
    places = [place_of(row.point.place, rows) for row in rows]
    parts += [line for share in (0, 0.25, 0.5, 0.75, 1) for line in grid(share, top)]
    for place, row in zip(places, rows, strict=True):
        label = escape(row.point.label)
        parts.append(text(place, HEIGHT - BOTTOM + 16, label, anchor="middle"))
    unit = escape(UNITS[axis])
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36, unit, anchor="middle"))
    for name, costs in figures.items():
        parts += curve(name, places, [height_of(cost, top) for cost in costs])
    return parts


def grid(share: float, top: float) -> list[str]:
    """A line across, and what it stands for."""
    y = height_of(top * share, top)
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>',
        text(LEFT - 6, y + 4, f"{top * share:g} µs", anchor="end"),
    ]


def curve(name: str, places: Sequence[float], heights: Sequence[float]) -> list[str]:
    """One line with its points and its name."""
    colour, dash = LINES[name]
    steps = list(zip(places, heights, strict=True))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
    return [
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in steps),
        text(steps[-1][0], steps[-1][1] - 8, name, anchor="end", colour=colour),
    ]


def text(x: float, y: float, said: str, *, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{said}</text>'


def place_of(value: float, rows: Sequence[Row]) -> float:
    """Where a value lies from left to right; every step is a multiple of the one before."""
    least, most = rows[0].point.place, rows[-1].point.place
    share = log(value / least) / log(most / least) if most > least else 0.0
    return LEFT + 20 + share * (WIDTH - LEFT - RIGHT - 40)


def height_of(cost: float, top: float) -> float:
    """Where a cost lies from top to bottom."""
    return HEIGHT - BOTTOM - cost / top * (HEIGHT - TOP - BOTTOM)


def round_up(highest: float) -> float:
    """The end of the scale: the next number that divides well."""
    step = 1.0
    while True:
        for number in (1, 2, 4, 8):
            if number * step >= highest:
                return number * step
        step *= 10
