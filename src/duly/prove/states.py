"""The state that a run leaves behind, and how it differs from that of the single run.

What differs from one single run to the next by nature is left out: times of the moment, random
ids, numbers that a sequence gave, and what refers to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from duly.prove.databases.pending_work import column_label
from duly.prove.statements import written_table
from duly.prove.table_diff import TableDiff, differs, written_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duly.prove.databases import RestorableDatabase, Rows, Table
    from duly.prove.table_diff import TableDifference
    from duly.prove.trace import Mark


class TableId(NamedTuple):
    """Where a table is: several databases may have one of the same name."""

    # Which of the databases, counted from the first.
    number: int
    # What people call that database; nothing for the first, which is the application's own.
    base: str
    table: str

    def label(self, column: str = "") -> str:
        """The table, or a column of it, as text for the report."""
        name = column_label(self.table, column) if column else self.table
        return f"{name} in {self.base}" if self.base else name


@dataclass(slots=True)
class DatabaseState:
    """Every row of the user's tables."""

    tables: dict[TableId, Table] = field(default_factory=dict)
    rows: dict[TableId, Rows] = field(default_factory=dict)


def read_state(bases: Iterable[RestorableDatabase], wanted: Sequence[str] | None) -> DatabaseState:
    """The tables of the user's, or only those that were asked for."""
    state = DatabaseState()
    for number, base in enumerate(bases):
        for table, rows in base.contents(wanted):
            spot = TableId(number, base.name if number else "", table.name)
            state.tables[spot] = table
            state.rows[spot] = rows
    return state


class ColumnMasks:
    """The columns that are not compared, in rows that were written.

    Args:
        start: the state in which every run begins.
        one: the state after a single run.
        others: the states after other ones.
    """

    def __init__(
        self, start: DatabaseState, one: DatabaseState, others: Sequence[DatabaseState]
    ) -> None:
        self._start = start
        self.columns: dict[TableId, set[str]] = {}
        for spot, table in one.tables.items():
            first = self._written_rows(spot, one)
            again = [self._written_rows(spot, other) for other in others]
            self.columns[spot] = {
                column.name
                for column in table.columns
                if column.made or any(differs(column.name, first, second) for second in again)
            }

    def _written_rows(self, spot: TableId, state: DatabaseState) -> Rows:
        return written_rows(self._start.rows.get(spot, []), state.rows.get(spot, []))

    def _hidden_columns(self) -> Iterator[tuple[TableId, str]]:
        """The columns that are not compared; the numbers of rows go without saying."""
        for spot, columns in self.columns.items():
            known = self._start.tables.get(spot)
            for column in columns if known is None else columns - known.generated_columns:
                yield spot, column

    def describe_hidden(self) -> list[str]:
        """What was not compared, as text for the report."""
        return sorted(spot.label(column) for spot, column in self._hidden_columns())

    def written_outside(self, marks: Sequence[Mark]) -> list[str]:
        """The tables that were written outside the fenced transaction, and are not all compared."""
        fenced = {mark.transaction for mark in marks if mark.ours} - {None}
        outside = {
            written_table(mark.text)
            for mark in marks
            if mark.theirs and mark.kind == "sql" and mark.transaction not in fenced
        }
        hidden = {spot for spot, _ in self._hidden_columns()}
        return sorted(
            spot.label() for spot in hidden if spot.table.rpartition(".")[2].lower() in outside
        )

    def first_difference(
        self, expected: DatabaseState, actual: DatabaseState
    ) -> TableDifference | None:
        """What is not as after a single run."""
        for spot in sorted({*expected.rows, *actual.rows}):
            table = expected.tables.get(spot) or actual.tables[spot]
            start, hidden = self._start.rows.get(spot, []), self.columns.get(spot, set())
            compared = TableDiff(table, start, hidden)
            found = compared.difference(expected.rows.get(spot, []), actual.rows.get(spot, []))
            if found is not None:
                return found._replace(base=spot.base)
        return None
