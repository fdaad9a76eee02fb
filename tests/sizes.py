"""How much of a thing is tried: as much as shows it or, with DULY_LONG=1, the whole of it."""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, TypeVar

import pytest

LONG = os.environ.get("DULY_LONG") == "1"
T = TypeVar("T")


def sized(shown: T, whole: T) -> T:
    """What is enough to show it, or the whole of it."""
    return whole if LONG else shown


def mostly_long(values: Iterable[T], shown: Callable[[T], bool]) -> list[Any]:
    """All values as parameters of a test; those that are not to be shown are marked long."""
    return [
        value if shown(value) else pytest.param(value, marks=pytest.mark.long) for value in values
    ]


def woven(values: Iterable[T], *axes: Callable[[T], object]) -> list[Any]:
    """All values as parameters, and so few not marked long that each pair of axes is in them.

    An axis tells one property of a value. Whatever two properties some value has together, one of
    the chosen values has: what fails for a value fails for one of those, unless it takes three.
    """
    rows = list(values)
    wanted = [pairs(row, axes) for row in rows]
    left = set().union(*wanted)
    chosen: set[int] = set()
    while left:
        best = max(range(len(rows)), key=lambda number: len(wanted[number] & left))
        chosen.add(best)
        left -= wanted[best]
    return [
        row if number in chosen else pytest.param(row, marks=pytest.mark.long)
        for number, row in enumerate(rows)
    ]


def pairs(row: T, axes: Sequence[Callable[[T], object]]) -> set[tuple[object, ...]]:
    """What a row shows: each two of its properties together."""
    properties = [(number, axis(row)) for number, axis in enumerate(axes)]
    return set(combinations(properties, 2)) or {tuple(properties)}
