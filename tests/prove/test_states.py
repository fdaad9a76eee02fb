"""Which differences between two states of a database count, and which are of the moment."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.prove.databases import Column, Table
from duly.prove.states import ColumnMasks, DatabaseState, TableId
from duly.prove.table_diff import TableDifference
from duly.prove.timestamp_masking import Span, is_moment

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
SPAN = Span(NOW.timestamp(), NOW.timestamp() + 2)
NUMBERED = Table("notes", (Column("id", made=True), Column("text"), Column("at")), ("id",))
NAMED = Table("accounts", (Column("name"), Column("n"), Column("at")), ("name",))
LOOSE = Table("log", (Column("line"),), ())


def state(table: Table, *rows: tuple[Any, ...]) -> DatabaseState:
    names = [column.name for column in table.columns]
    spot = TableId(0, "", table.name)
    return DatabaseState(
        {spot: table}, {spot: [dict(zip(names, row, strict=True)) for row in rows]}
    )


def masks(
    table: Table, start: DatabaseState, one: DatabaseState, other: DatabaseState | None = None
) -> ColumnMasks:
    return ColumnMasks(start, one, [one if other is None else other])


def test_a_row_that_is_there_twice_is_a_difference_although_its_number_is_new() -> None:
    single = state(NUMBERED, (1, "paid", None))
    found = masks(NUMBERED, state(NUMBERED), single).first_difference(
        single, state(NUMBERED, (1, "paid", None), (2, "paid", None))
    )
    assert isinstance(found, TableDifference)
    assert (found.column, found.expected, found.actual) == (None, 1, 2)
    assert found.row["text"] == "paid"


def test_numbers_that_the_database_gives_are_not_compared() -> None:
    single = state(NUMBERED, (1, "paid", None))
    known = masks(NUMBERED, state(NUMBERED), single)
    assert known.first_difference(single, state(NUMBERED, (9, "paid", None))) is None


def test_a_column_that_differs_between_two_single_runs_is_not_compared() -> None:
    start = state(NAMED)
    one, other = state(NAMED, ("a", "x1", None)), state(NAMED, ("a", "x2", None))
    known = masks(NAMED, start, one, other)
    assert known.first_difference(one, state(NAMED, ("a", "x3", None))) is None
    assert known.describe_hidden() == ["accounts.n"]


def test_the_time_of_a_run_is_not_compared_but_whether_there_is_one_is() -> None:
    start = state(NAMED, ("a", 1, None))
    single = state(NAMED, ("a", 1, "2026-11-16 12:00:01"))
    known = masks(NAMED, start, single, state(NAMED, ("a", 1, "2026-11-16 12:00:02")))
    later = state(NAMED, ("a", 1, "2026-11-16 12:00:59"))
    assert known.first_difference(single, later) is None
    found = known.first_difference(single, start)
    assert found is not None
    assert (found.column, found.actual) == ("at", None)


def test_a_row_that_was_there_before_is_told_by_its_key() -> None:
    start, single = state(NAMED, ("a", 100, None)), state(NAMED, ("a", 200, None))
    found = masks(NAMED, start, single).first_difference(single, state(NAMED, ("a", 300, None)))
    assert found == TableDifference("accounts", "n", {"name": "a"}, 100, 200, 300)


def test_a_row_that_a_single_run_leaves_alone_must_be_left_alone() -> None:
    start = state(NAMED, ("a", 1, "2026-01-01 00:00:00"), ("b", 1, None))
    single = state(NAMED, ("a", 1, "2026-01-01 00:00:00"), ("b", 1, "2026-11-16 12:00:01"))
    other = state(NAMED, ("a", 1, "2026-01-01 00:00:00"), ("b", 1, "2026-11-16 12:00:02"))
    touched = state(NAMED, ("a", 1, "2026-11-16 12:00:05"), ("b", 1, "2026-11-16 12:00:01"))
    found = masks(NAMED, start, single, other).first_difference(single, touched)
    assert found is not None
    assert found.row == {"name": "a"}


def test_a_row_that_is_missing_is_a_difference() -> None:
    start, single = state(NAMED, ("a", 1, None)), state(NAMED)
    known = masks(NAMED, start, single)
    found = known.first_difference(single, start)
    assert found is not None
    assert (found.expected, found.actual) == (0, 1)


def test_rows_without_a_key_are_counted() -> None:
    start, single = state(LOOSE, ("old",)), state(LOOSE, ("old",), ("new",))
    known = masks(LOOSE, start, single)
    assert known.first_difference(single, state(LOOSE, ("new",), ("old",))) is None
    found = known.first_difference(single, state(LOOSE, ("old",), ("new",), ("new",)))
    assert found is not None
    assert (found.row, found.expected, found.actual) == ({"line": "new"}, 1, 2)


@pytest.mark.parametrize(
    "value",
    [
        NOW + timedelta(seconds=1),
        NOW.replace(tzinfo=None),
        NOW.date(),
        "2026-11-16 12:00:01",
        "2026-11-16T14:00:01+02:00",
        int(NOW.timestamp()),
        NOW.timestamp() * 1000,
        int(NOW.timestamp() * 1_000_000),
    ],
)
def test_the_moment_is_recognised_in_whatever_form(value: Any) -> None:
    assert is_moment(value, SPAN)


@pytest.mark.parametrize(
    "value",
    [None, True, 7, 100, 2026, "paid", "2025-01-01 00:00:00", uuid.uuid4(), b"x", "2026-11-16"],
)
def test_other_values_are_no_moment(value: Any) -> None:
    assert not is_moment(value, SPAN)
