"""What a person sees at the end: a table for each measure, the ratios, and JSON as last line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.ingesting.showing import against, ratio_as_json
from benchmarks.working.contenders import BULK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.ingesting.aims import Ratio
    from benchmarks.working.contest import Row

# What the figures of each measure are called, in the order of their columns.
WORK = {"rate": "jobs/s", "wal_bytes": "log bytes/job", "commits": "commits/job", "dead": "dead"}
COLUMNS = {
    "drain": {**WORK, "held": "jobs/s, old snapshot"},
    "update": WORK,
    BULK: WORK,
    "enqueue": {"rate": "one by one/s", "within": "in a transaction/s", "bulk": "bulk/s"},
    "latency": {"p50": "p50 ms", "p99": "p99 ms"},
}
DECIMALS = {"commits": 3, "p50": 2, "p99": 2}
SCALES = {"p50": 1e3, "p99": 1e3}
IN_JSON = {"p50": "p50_ms", "p99": "p99_ms"}


def report(
    rows: Sequence[Row], ratios: Sequence[Ratio], absent: Mapping[str, str], *, machine: bool
) -> str:
    """The tables and the object, or the object alone."""
    last = json.dumps(
        {
            "suite": "jobs",
            "rows": [row_as_json(row) for row in rows],
            "ratios": [ratio_as_json(ratio) for ratio in ratios],
            "absent": dict(absent),
        }
    )
    if machine:
        return last
    parts = [table(measure, rows) for measure in COLUMNS if of(measure, rows)]
    parts += [against(ratios)] if ratios else []
    parts += [f"not measured: {name} {reason}" for name, reason in absent.items()]
    return "\n\n".join(parts) + "\n" + last


def of(measure: str, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.name.endswith(f"/{measure}")]


def table(measure: str, rows: Sequence[Row]) -> str:
    """One line for each contender."""
    return table_of(COLUMNS[measure], of(measure, rows))


def table_of(columns: Mapping[str, str], shown: Sequence[Row]) -> str:
    """One line for each row, one column for each figure; a dash where a row has none."""
    width = max(len(row.name) for row in shown)
    head = f"{'':{width}}" + "".join(f"  {title:>{size(title)}}" for title in columns.values())
    return "\n".join([head, *(line(row, columns, width) for row in shown)])


def line(row: Row, columns: Mapping[str, str], width: int) -> str:
    if not row.valid:
        return f"{row.name:{width}}  INVALID: {row.failure.splitlines()[0]}"
    figures = [
        f"  {row.of(what) * SCALES.get(what, 1):{size(title)},.{DECIMALS.get(what, 0)}f}"
        if what in row.seen
        else f"  {'-':>{size(title)}}"
        for what, title in columns.items()
    ]
    return f"{row.name:{width}}" + "".join(figures) + spread(row)


def spread(row: Row) -> str:
    """The lowest and highest rate, where there was more than one round."""
    rates = row.seen.get("rate", [])
    return f"  {min(rates):,.0f} to {max(rates):,.0f}" if len(rates) > 1 else ""


def size(title: str) -> int:
    return max(len(title), 8)


def row_as_json(row: Row) -> dict[str, Any]:
    figures = {
        IN_JSON.get(what, what): round(row.of(what) * SCALES.get(what, 1), 3) for what in row.seen
    }
    return {"name": row.name, **figures, "valid": row.valid}
