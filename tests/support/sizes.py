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


def mark_wide_parameters(items: Iterable[pytest.Item]) -> None:
    """Mark tests of which a parameter says that it is ``wide``: a driver, a framework.

    A test that has no other parameters is about those, and stays in the short form.
    """
    functions: dict[str, list[tuple[pytest.Item, bool]]] = {}
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        wide = any(getattr(value, "wide", False) is True for value in parameters.values())
        functions.setdefault(item.nodeid.partition("[")[0], []).append((item, wide))
    for forms in functions.values():
        if all(wide for _, wide in forms):
            continue
        for item, wide in forms:
            if wide:
                item.add_marker(pytest.mark.wide)


def in_this_form(item: pytest.Item) -> bool:
    """Whether a test is part of the form that was asked for."""
    if LONG:
        return True
    if item.get_closest_marker("long") is not None:
        return False
    return (item.get_closest_marker("wide") is not None) == WIDE
