"""What a person sees at the end: a table for each measure, the ratios, and JSON as last line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.ingesting.showing import against, ratio_as_json
from benchmarks.working.showing import of, row_as_json, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ingesting.aims import Ratio
    from benchmarks.working.contest import Row

# What the figures of each measure are called, in the order of their columns.
COLUMNS = {
    "relay": {
        "rate": "messages/s",
        "wal_bytes": "log bytes/message",
        "commits": "commits/message",
    },
    "stage": {"rate": "transactions/s"},
    "end-to-end": {"p50": "p50 ms", "p99": "p99 ms"},
}


def report(rows: Sequence[Row], ratios: Sequence[Ratio], *, machine: bool) -> str:
    """The tables and the object, or the object alone."""
    last = json.dumps(
        {
            "suite": "outbox",
            "rows": [row_as_json(row) for row in rows],
            "ratios": [ratio_as_json(ratio) for ratio in ratios],
        }
    )
    if machine:
        return last
    measured = [(columns, of(measure, rows)) for measure, columns in COLUMNS.items()]
    parts = [table_of(columns, shown) for columns, shown in measured if shown]
    parts += [against(ratios)] if ratios else []
    return "\n\n".join(parts) + "\n" + last
