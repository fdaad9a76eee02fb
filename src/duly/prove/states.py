"""The state that a run leaves behind, and how it differs from that of the single run.

What differs from one single run to the next by nature is left out: times of the moment, random
ids, numbers that a sequence gave, and whatever refers to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from duly.prove.comparing import Compared, differs, written
from duly.prove.databases.waiting import column_told
from duly.prove.statements import written_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duly.prove.comparing import Difference
    from duly.prove.databases import Base, Rows, Table
    from duly.prove.trace import Mark


class Spot(NamedTuple):
    """Where a table is: several databases may have one of the same name."""

    # Which of the databases, counted from the first.
    number: int
    # What people call that database; nothing for the first, which is the application's own.
    base: str
    table: str

    def told(self, column: str = "") -> str:
        """The table, or a column of it, for a person."""
        name = column_told(self.table, column) if column else self.table
        return f"{name} in {self.base}" if self.base else name


@dataclass(slots=True)
class State:
    """Every row of the user's tables."""

    tables: dict[Spot, Table] = field(default_factory=dict)
    rows: dict[Spot, Rows] = field(default_factory=dict)


def read_state(bases: Iterable[Base], wanted: Sequence[str] | None) -> State:
    """The tables of the user's, or only those that were asked for."""
    state = State()
    for number, base in enumerate(bases):
        for table, rows in base.contents(wanted):
            spot = Spot(number, base.name if number else "", table.name)
            state.tables[spot] = table
            state.rows[spot] = rows
    return state


class Masks:
    """The columns that are not compared, in rows that were written.

    Args:
        start: the state in which every run begins.
        one: the state after a single run.
        others: the states after other ones.
    """

    def __init__(self, start: State, one: State, others: Sequence[State]) -> None:
        self._start = start
        self.columns: dict[Spot, set[str]] = {}
        for spot, table in one.tables.items():
            first = self._new(spot, one)
            again = [self._new(spot, other) for other in others]
            self.columns[spot] = {
                column.name
                for column in table.columns
                if column.made or any(differs(column.name, first, second) for second in again)
            }

    def _new(self, spot: Spot, state: State) -> Rows:
        return written(self._start.rows.get(spot, []), state.rows.get(spot, []))

    def _telling(self) -> Iterator[tuple[Spot, str]]:
        """The columns that are not compared; the numbers of rows go without saying."""
        for spot, columns in self.columns.items():
            known = self._start.tables.get(spot)
            for column in columns if known is None else columns - known.made:
                yield spot, column

    def told(self) -> list[str]:
        """What was not compared, for a person."""
        return sorted(spot.told(column) for spot, column in self._telling())

    def written_outside(self, marks: Sequence[Mark]) -> list[str]:
        """The tables that were written outside the fenced transaction, and are not all compared."""
        fenced = {mark.transaction for mark in marks if mark.ours} - {None}
        outside = {
            written_table(mark.text)
            for mark in marks
            if mark.theirs and mark.kind == "sql" and mark.transaction not in fenced
        }
        hidden = {spot for spot, _ in self._telling()}
        return sorted(
            spot.told() for spot in hidden if spot.table.rpartition(".")[2].lower() in outside
        )

    def first_difference(self, expected: State, actual: State) -> Difference | None:
        """What is not as after a single run."""
        for spot in sorted({*expected.rows, *actual.rows}):
            table = expected.tables.get(spot) or actual.tables[spot]
            start, hidden = self._start.rows.get(spot, []), self.columns.get(spot, set())
            compared = Compared(table, start, hidden)
            found = compared.difference(expected.rows.get(spot, []), actual.rows.get(spot, []))
            if found is not None:
                return found._replace(base=spot.base)
        return None
