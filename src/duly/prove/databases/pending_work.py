"""Jobs and messages that are due later: no case runs them, so their rows are compared.

What is due at once is done in every case, and compared by what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.prove.databases.base import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.core.defaults import Names
    from duly.prove.databases.base import Rows

JOBS, MESSAGES = "jobs that wait", "messages that wait"
# Of which of duly's tables, and what tells one from another; their ids are new each time.
COMPARED_COLUMNS = {
    JOBS: ("jobs", ("name", "payload", "queue", "scope", "run_at")),
    MESSAGES: ("outbox", ("destination", "body", "request", "signer", "scope", "run_at")),
}
WAITING = (
    "SELECT {columns} FROM {table}"
    " WHERE state = 'ready' AND waiting AND attempts = 0 AND rescues = 0"
)


def pending_work(
    names: Names, fetched: Callable[[str], Iterable[Sequence[Any]]]
) -> list[tuple[Table, Rows]]:
    """What waits, as if each kind of it were a table; none where there is nothing of it."""
    found = []
    for told, (table, columns) in COMPARED_COLUMNS.items():
        asked = WAITING.format(columns=", ".join(columns), table=names.table(table))
        rows = [dict(zip(columns, map(readable, row), strict=True)) for row in fetched(asked)]
        if rows:
            found.append((Table(told, tuple(map(Column, columns)), ()), rows))
    return found


def column_label(table: str, column: str) -> str:
    """A column of a table, or of what waits, as text for the report."""
    return f"{column} of the {table}" if table in COMPARED_COLUMNS else f"{table}.{column}"


def readable(value: Any) -> Any:
    """A document as text, whose names are still compared where its values are not."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
