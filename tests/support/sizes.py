"""How much of a thing is tried: as much as shows it, more of the same, or the whole of it.

The short form, `make test`, has each promise on each store, sync and async, once. What else is of
the same kind is marked ``wide`` where it is written, and `make test-wide` runs that alone, with
DULY_WIDE=1: more drivers, servers and handlers, more providers, whole applications. ``long`` takes
minutes of many processes. With DULY_LONG=1, `make test-full`, all three run, with larger numbers.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

LONG = os.environ.get("DULY_LONG") == "1"
WIDE = os.environ.get("DULY_WIDE") == "1"
T = TypeVar("T")


def sized(shown: T, whole: T) -> T:
    """What is enough to show it, or the whole of it."""
    return whole if LONG else shown


def mostly_long(values: Iterable[T], shown: Callable[[T], bool]) -> list[Any]:
    """All values as parameters of a test; those that are not to be shown are marked long."""
    return [
        value if shown(value) else pytest.param(value, marks=pytest.mark.long) for value in values
    ]


def mostly_wide(values: Iterable[T], shown: Callable[[T], bool]) -> list[Any]:
    """All values as parameters of a test; those that are not to be shown are marked wide."""
    return [
        value if shown(value) else pytest.param(value, marks=pytest.mark.wide) for value in values
    ]


def in_this_form(item: pytest.Item) -> bool:
    """Whether a test is part of the form that was asked for."""
    if LONG:
        return True
    if item.get_closest_marker("long") is not None:
        return False
    return (item.get_closest_marker("wide") is not None) == WIDE
