"""One table after a single run and after another: the first difference between them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from duly.prove.databases import Rows, Table

Row = dict[str, Any]
HIDDEN = "…"


class TableDifference(NamedTuple):
    """The first thing that is not as after a single run."""

    table: str
    # What is wrong: a value, or how often a row is there.
    column: str | None
    # The row it is about, as far as it can be named.
    row: Row
    # What was there before, is there after a single run, and is there now.
    before: Any
    expected: Any
    actual: Any
    # The database that the table is in, where it is not the application's own.
    base: str = ""


class TableDiff:
    """One table, after a single run and after another."""

    def __init__(self, table: Table, start: Rows, hidden: set[str]) -> None:
        self._table = table
        self._start = start
        self._hidden = hidden
        self._known = self._rows_by_key(start)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(comparable_value(row[name]) for name in self._table.key)

    def _rows_by_key(self, rows: Rows) -> dict[tuple[Any, ...], Row]:
        """The rows that their key tells apart: one with a NULL in it may be there many times."""
        keyed = ((self._key(row), row) for row in rows if self._table.key)
        return {key: row for key, row in keyed if None not in key}

    def difference(self, expected: Rows, actual: Rows) -> TableDifference | None:
        """The first difference: in a row that was there before, or in those that are new."""
        changed = self._changed_row_difference(expected, actual)
        return changed or self._new_row_difference(self._new_rows(expected), self._new_rows(actual))

    def _changed_row_difference(self, expected: Rows, actual: Rows) -> TableDifference | None:
        there, now = self._rows_by_key(expected), self._rows_by_key(actual)
        for key, before in self._known.items():
            good, bad = there.get(key), now.get(key)
            if good is None or bad is None:
                if good is not bad:
                    there_and_now = int(good is not None), int(bad is not None)
                    return TableDifference(
                        self._table.name, None, self._row_label(before), 1, *there_and_now
                    )
                continue
            for column, value in good.items():
                if not self._is_same(column, before.get(column), value, bad.get(column)):
                    return TableDifference(
                        self._table.name,
                        column,
                        self._row_label(before),
                        before.get(column),
                        value,
                        bad.get(column),
                    )
        return None

    def _is_same(self, column: str, before: Any, good: Any, bad: Any) -> bool:
        """Whether a value is as after a single run; what that left alone must be left alone."""
        if comparable_value(good) == comparable_value(before):
            return bool(comparable_value(bad) == comparable_value(good))
        return bool(self._mask_value(column, bad) == self._mask_value(column, good))

    def _mask_value(self, column: str, value: Any) -> Any:
        """A value as it is compared; whether there is one at all always counts."""
        return (
            value_shape(value)
            if column in self._hidden and value is not None
            else comparable_value(value)
        )

    def _new_rows(self, rows: Rows) -> Rows:
        """The rows that were not there before, or without a key to tell."""
        return [row for row in rows if self._key(row) not in self._known]

    def _new_row_difference(self, expected: Rows, actual: Rows) -> TableDifference | None:
        good = Counter(self._canonical(row) for row in expected)
        bad = Counter(self._canonical(row) for row in actual)
        start = Counter(self._canonical(row) for row in self._start)
        more, less = bad - good, good - bad
        if len(expected) == len(actual) and more and less:
            return self._value(next(iter(less)), next(iter(more)))
        for row in [*more, *less]:
            return TableDifference(
                self._table.name, None, dict(row), start[row], good[row], bad[row]
            )
        return None

    def _value(self, good: Any, bad: Any) -> TableDifference:
        """Two rows of which one should be as the other is: the first value that is not."""
        for (column, value), (_, other) in zip(good, bad, strict=True):
            if value != other:
                rest = [pair for pair in good if pair[0] != column]
                return TableDifference(
                    self._table.name, column, self._row_label(dict(rest)), None, value, other
                )
        return TableDifference(self._table.name, None, dict(good), 0, 1, 1)

    def _canonical(self, row: Row) -> tuple[tuple[str, Any], ...]:
        return tuple((name, self._mask_value(name, value)) for name, value in row.items())

    def _row_label(self, row: Row) -> Row:
        """A row by its key; where that says nothing, by what else is in it."""
        by_key = {name: row[name] for name in self._table.key if name in row}
        telling = {name: value for name, value in by_key.items() if value != HIDDEN}
        return telling or {name: value for name, value in row.items() if value != HIDDEN}


def written_rows(start: Rows, rows: Rows) -> Rows:
    """The rows that are not as they were before the run."""
    known = Counter(hashable_row(row) for row in start)
    found = []
    for row in rows:
        if known[hashable_row(row)] > 0:
            known[hashable_row(row)] -= 1
        else:
            found.append(row)
    return found


def differs(column: str, first: Rows, second: Rows) -> bool:
    """Whether a column of the written rows is another after another single run."""
    one = Counter(comparable_value(row.get(column)) for row in first)
    return one != Counter(comparable_value(row.get(column)) for row in second)


def hashable_row(row: Row) -> tuple[Any, ...]:
    """A row that can be counted."""
    return tuple((name, comparable_value(value)) for name, value in row.items())


def value_shape(value: Any) -> Any:
    """What is left of a value that is not compared: of a document, its names and its lengths."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return HIDDEN
    if isinstance(value, dict):
        return tuple((name, value_shape(value[name])) for name in sorted(value))
    return tuple(value_shape(one) for one in value) if isinstance(value, list) else HIDDEN


def comparable_value(value: Any) -> Any:
    """A value in a form that can be compared and counted, for any driver."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
