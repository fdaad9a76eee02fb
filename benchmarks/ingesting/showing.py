"""What a person sees at the end: the rows, the ratios with their aims, and JSON as last line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ingesting.aims import Ratio
    from benchmarks.ingesting.contest import Row


def report(rows: Sequence[Row], ratios: Sequence[Ratio], *, machine: bool) -> str:
    """Both tables and the object, or the object alone."""
    last = json.dumps(
        {
            "suite": "ingest",
            "rows": [row_as_json(row) for row in rows],
            "ratios": [ratio_as_json(ratio) for ratio in ratios],
        }
    )
    parts = [] if machine else [table(rows), *([against(ratios)] if ratios else [])]
    return "\n\n".join(parts) + ("\n" if parts else "") + last


def table(rows: Sequence[Row]) -> str:
    """Rates, latencies, and processor time for each delivery; how busy the load itself was."""
    width = max(len(row.name) for row in rows)
    head = f"{'':{width}}  {'accepted/s':>10}  {'p50 ms':>8}  {'p99 ms':>8}"
    head += f"  {'server µs':>9}  {'postgres µs':>11}  {'load µs':>7}  {'load':>4}"
    return "\n".join([head, *(line(row, width) for row in rows)])


def line(row: Row, width: int) -> str:
    figures = f"{row.rate:10,.0f}  {row.p50 * 1e3:8.2f}  {row.p99 * 1e3:8.2f}"
    figures += f"  {micro(row.server):>9}  {micro(row.postgres):>11}"
    figures += f"  {micro(row.load_each):>7}  {row.load:4.0%}"
    pool = f"  pool of {row.pool}" if row.pool else ""
    note = f"  ({row.note})" if row.note else ""
    wrong = ", ".join(f"{count} of {what}" for what, count in row.others.items())
    invalid = "" if row.valid else f"  INVALID: {wrong or 'nothing was accepted'}"
    return f"{row.name:{width}}  {figures}{pool}{note}{invalid}"


def micro(seconds: float | None) -> str:
    """Microseconds, or a dash where nothing is known."""
    return "-" if seconds is None else f"{seconds * 1e6:.0f}"


def against(ratios: Sequence[Ratio]) -> str:
    """Every ratio, its aim, and how many aims were reached."""
    width = max(len(one.name) for one in ratios)
    words = {None: "", True: "met", False: "missed"}
    lines = [
        f"{one.name:{width}}  {one.ratio:6.2f}  {aim_of(one):>4}  {words[one.met]}".rstrip()
        for one in ratios
    ]
    aimed = [one for one in ratios if one.aim is not None]
    missed = [one.name for one in aimed if not one.met]
    reached = f"{len(aimed) - len(missed)} of {len(aimed)} aims are met"
    below = f"; missed: {', '.join(missed)}" if missed else ""
    head = f"{'':{width}}  {'ratio':>6}  {'aim':>4}"
    return "\n".join([head, *lines, "", reached + below])


def aim_of(ratio: Ratio) -> str:
    return "" if ratio.aim is None else f"{ratio.aim:.3g}"


def row_as_json(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "rate": round(row.rate, 1),
        "p50_ms": round(row.p50 * 1e3, 3),
        "p99_ms": round(row.p99 * 1e3, 3),
        "server_us": in_micro(row.server),
        "postgres_us": in_micro(row.postgres),
        "load_us": in_micro(row.load_each),
        "load": round(row.load, 3),
        "pool": row.pool or None,
        "note": row.note or None,
        "valid": row.valid,
        "others": row.others,
    }


def in_micro(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 1)


def ratio_as_json(ratio: Ratio) -> dict[str, Any]:
    return {
        "name": ratio.name,
        "ratio": round(ratio.ratio, 3),
        "aim": ratio.aim,
        "met": ratio.met,
    }
