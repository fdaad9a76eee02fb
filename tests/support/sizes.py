"""How much of a thing is tried: as much as shows it or, with DULY_LONG=1, the whole of it."""

import os
from collections.abc import Callable, Iterable
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
