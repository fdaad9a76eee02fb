"""What a person sees at the end: the rows, how the costs grew, and JSON as last line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.ingesting.showing import in_micro, micro

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.growing.contest import Figures, Growth, Row

HEADS = ("deliveries/s", "server µs", "postgres µs", "jobs/s", "worker µs", "postgres µs")
MET = {None: "", True: "met", False: "missed"}


def report(rows: Sequence[Row], growths: Sequence[Growth], plot: str, *, machine: bool) -> str:
    """Both tables and the object, or the object alone."""
    last = json.dumps(
        {
            "suite": "growth",
            "rows": [row_as_json(row) for row in rows],
            "ratios": [growth_as_json(one) for one in growths],
            "plot": plot,
        }
    )
    parts = [] if machine else [table(rows), *([against(growths)] if growths else [])]
    return "\n\n".join(parts) + ("\n" if parts else "") + last


def table(rows: Sequence[Row]) -> str:
    """Rates, and processor time for each delivery and for each job."""
    width = max(len(row.point.name) for row in rows)
    head = f"{'':{width}}" + "".join(f"  {title:>{len(title)}}" for title in HEADS)
    return "\n".join([head, *(line(row, width) for row in rows)])


def line(row: Row, width: int) -> str:
    if not row.valid:
        return f"{row.point.name:{width}}  INVALID: {', '.join(row.others) or 'nothing accepted'}"
    figures = [
        shown
        for one in (row.ingest, row.drain)
        for shown in (f"{one.rate:,.0f}", micro(one.own), micro(one.postgres))
    ]
    columns = [f"  {shown:>{len(head)}}" for shown, head in zip(figures, HEADS, strict=True)]
    return f"{row.point.name:{width}}" + "".join(columns)


def against(growths: Sequence[Growth]) -> str:
    """The cost at the largest point of each axis, as a multiple of that at the smallest."""
    width = max(len(one.name) for one in growths)
    lines = [
        f"{one.name:{width}}  {one.ratio:6.2f}  {'' if one.aim is None else one.aim:>4}  "
        f"{MET[one.met]}".rstrip()
        for one in growths
    ]
    aimed = [one for one in growths if one.aim is not None]
    missed = [one.name for one in aimed if not one.met]
    below = f"; missed: {', '.join(missed)}" if missed else ""
    reached = f"{len(aimed) - len(missed)} of {len(aimed)} aims are met{below}"
    return "\n".join([f"{'':{width}}  {'growth':>6}  {'most':>4}", *lines, "", reached])


def row_as_json(row: Row) -> dict[str, Any]:
    return {
        "name": row.point.name,
        "ingest": figures_as_json(row.ingest),
        "drain": figures_as_json(row.drain),
        "valid": row.valid,
        "others": row.others,
    }


def figures_as_json(figures: Figures) -> dict[str, Any]:
    return {
        "rate": round(figures.rate, 1),
        "own_us": in_micro(figures.own),
        "postgres_us": in_micro(figures.postgres),
        "cost_us": in_micro(figures.cost),
    }


def growth_as_json(growth: Growth) -> dict[str, Any]:
    return {
        "name": growth.name,
        "ratio": round(growth.ratio, 3),
        "aim": growth.aim,
        "met": growth.met,
    }
