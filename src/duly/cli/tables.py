"""Columns for people: texts under each other, numbers with their last digits under each other."""

from __future__ import annotations

import shutil
import sys
import textwrap
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

TableRow = tuple[str, ...]
INDENT = " " * 4
# Narrower than that nobody reads, and words are broken.
NARROWEST = 40


def align_texts(rows: Sequence[TableRow]) -> list[str]:
    """Lines of texts; the last column may be as long as it is."""
    widths = widths_of(rows)[:-1]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]


def fold_columns(rows: Sequence[TableRow], width: int | None) -> list[str]:
    """The same where it fits; else with the columns that do not on lines of their own below."""
    lines = align_texts(rows)
    if width is None or max(map(len, lines)) <= width:
        return lines
    ends = accumulate(widths_of(rows), lambda end, column: end + 2 + column)
    fits = max(sum(end <= width for end in ends), 1)
    tops = align_texts([row[:fits] for row in rows])
    return [
        line
        for top, row in zip(tops, rows, strict=True)
        for line in (top.rstrip(), *indent_below("  ".join(row[fits:]), width))
    ]


def indent_below(text: str, width: int) -> list[str]:
    """A text that belongs to the line above it."""
    return textwrap.wrap(
        text, max(width, NARROWEST), initial_indent=INDENT, subsequent_indent=INDENT
    )


def terminal_width() -> int | None:
    """How many columns there are to see; None where no terminal shows them."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def align_counts(rows: Sequence[TableRow]) -> list[str]:
    """Lines of numbers, with what they count in front."""
    first, *widths = widths_of(rows)
    return [
        "  ".join(
            [
                row[0].ljust(first),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True)),
            ]
        )
        for row in rows
    ]


def widths_of(rows: Sequence[TableRow]) -> list[int]:
    """How wide each column is."""
    return [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]


def format_age(length: timedelta | None) -> str:
    """A duration as its two largest units."""
    if length is None:
        return "-"
    seconds = int(length.total_seconds())
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"
