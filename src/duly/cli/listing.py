"""Listings for people: aligned columns, times, ages, and the last error of a job or message."""

from __future__ import annotations

import shutil
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import duly
from duly.app.output import on_one_line, printable
from duly.core.failures import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.failures import Failure
    from duly.core.json_bytes import Json

TableRow = tuple[str, ...]
INDENT = " " * 4
# Columns. In fewer than that, words would be broken.
NARROWEST = 40
# Characters of an error in a list.
LONGEST_REASON = 120


def fold_columns(rows: Sequence[TableRow], width: int | None) -> list[str]:
    """Return lines of aligned texts; columns beyond ``width`` go on lines of their own below."""
    lines = align_texts(rows)
    if width is None or max(map(len, lines)) <= width:
        return lines
    ends = accumulate(column_widths(rows), lambda end, column: end + 2 + column)
    fits = max(sum(end <= width for end in ends), 1)
    tops = align_texts([row[:fits] for row in rows])
    return [
        line
        for top, row in zip(tops, rows, strict=True)
        for line in (top.rstrip(), *indent_below("  ".join(row[fits:]), width))
    ]


def align_texts(rows: Sequence[TableRow]) -> list[str]:
    """Return lines of texts in columns; the last column may be of any length."""
    widths = column_widths(rows)[:-1]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]


def align_counts(rows: Sequence[TableRow]) -> list[str]:
    """Return lines of a name and right-aligned numbers."""
    first, *widths = column_widths(rows)
    return [
        "  ".join(
            [
                row[0].ljust(first),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True)),
            ]
        )
        for row in rows
    ]


def counts_table(group: str, columns: Sequence[str], rows: Sequence[object]) -> list[str]:
    """Return a heading and a line for each row; ``group`` and ``columns`` are its attributes."""
    if not rows:
        return []
    lines = [tuple(name.upper() for name in (group, *columns))]
    lines += [
        (on_one_line(getattr(row, group)), *(format_count(getattr(row, name)) for name in columns))
        for row in rows
    ]
    return align_counts(lines)


def counts_documents(group: str, columns: Sequence[str], rows: Sequence[object]) -> list[Json]:
    """Return the same for programs; ages in seconds."""
    return [members(row, group, *columns) for row in rows]


def format_count(value: int | timedelta | None) -> str:
    """Format a number, or an age."""
    return f"{value:,}" if isinstance(value, int) else format_age(value)


def members(row: object, *names: str) -> dict[str, Json]:
    """Return attributes for programs: times in ISO form, ages in seconds."""
    return {name: json_value(getattr(row, name)) for name in names}


def json_value(value: Any) -> Json:
    """Return a value for programs."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    found: Json = value.isoformat() if isinstance(value, datetime) else value
    return found


def indent_below(text: str, width: int) -> list[str]:
    """Return a text wrapped and indented, to stand below the line that it belongs to."""
    return textwrap.wrap(
        text, max(width, NARROWEST), initial_indent=INDENT, subsequent_indent=INDENT
    )


def terminal_width() -> int | None:
    """Return the columns of the terminal; None where stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def column_widths(rows: Sequence[TableRow]) -> list[int]:
    """Return the width of each column."""
    return [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]


def fact_lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    """Return one line for each name and value."""
    return [f"{name:<9} {value}" for name, value in facts]


def format_age(length: timedelta | None) -> str:
    """Format a duration in its two largest units."""
    if length is None:
        return "-"
    seconds = int(length.total_seconds())
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"


def format_time(time: datetime) -> str:
    """Format a time for people, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def failure_text(failure: Failure | None) -> str:
    """Return the last error on one line; without its type where that is internal to duly."""
    if failure is None:
        return "-"
    package, _, name = failure.type.rpartition(".")
    internal = package == "duly" and name not in duly.__all__
    text = failure.message if internal else f"{failure.type}: {failure.message}"
    return on_one_line(text if failure.cause is None else f"{text} (cause: {failure.cause})")


def short_failure_text(failure: Failure | None) -> str:
    """Return the last error, cut to what a list has room for."""
    return shorten(failure_text(failure), LONGEST_REASON)


def traceback_lines(failure: Failure | None) -> list[str]:
    """Return the traceback of the last error, behind an empty line."""
    if failure is None or not failure.traceback:
        return []
    return ["", printable(failure.traceback).rstrip()]


def failure_document(failure: Failure | None) -> Json:
    """Return the last error for programs, without its traceback."""
    if failure is None:
        return None
    return members(failure, "type", "message", "cause", "attempt")
