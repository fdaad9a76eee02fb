"""Where in a value the part is that JSON cannot hold, and what to write instead.

Values are never shown, because they may be private; keys and types are.
"""

from __future__ import annotations

import json
import math
from typing import Final

Nested = dict[object, object] | list[object]
PLAIN: Final = "None, a bool, a number, a string, a list or a dict with string keys"
# Deeper than what is storable; the walk ends there also in a value that holds itself.
MOST_DEPTH: Final = 100
LONGEST_KEY, LONGEST_PATH = 40, 200
# By the name of the type: the modules of most of these are not loaded unless they are used.
REMEDIES: Final = {
    "Decimal": "write str(…), or a whole number of the smallest unit",
    "datetime": "write .isoformat()",
    "date": "write .isoformat()",
    "time": "write .isoformat()",
    "timedelta": "write .total_seconds()",
    "UUID": "write str(…)",
    "bytes": "write .hex(), or base64",
    "tuple": "use a list",
    "set": "use a sorted list",
    "frozenset": "use a sorted list",
}


def find_unstorable(value: object, path: str) -> str | None:
    """A sentence about the first part that JSON cannot hold; None where none can be named.

    Args:
        value: what could not be stored.
        path: how the caller calls it, as in ``payload``.
    """
    return describe_first(value, path, MOST_DEPTH)


def describe_first(value: object, path: str, levels: int) -> str | None:
    """The same for a part of the value, so many levels above the deepest."""
    if isinstance(value, dict | list):
        if levels < 0:  # said at once: a walk on through a value that holds itself has no end
            whole = path.partition("[")[0]
            return f"{whole} is nested deeper than {MOST_DEPTH} levels, or holds itself: flatten it"
        return describe_member(value, path, levels)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{shorten_path(path)} is {value}, which JSON cannot hold: use None or a string"
    if value is None or isinstance(value, str | int | float):
        return None
    name = type(value).__name__
    instead = REMEDIES.get(name) or REMEDIES.get(plain_base(value)) or f"use {PLAIN}"
    return f"{shorten_path(path)} is of type {name}, which JSON cannot hold: {instead}"


def describe_member(value: Nested, path: str, levels: int) -> str | None:
    """The first part of a dict or a list, in the order in which it would be written."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        if isinstance(value, dict) and not isinstance(key, str):
            return (
                f"{shorten_path(path)} has a key of type {type(key).__name__}, which JSON would "
                "turn "
                "into text or refuse: use strings as keys"
            )
        found = describe_first(member, f"{path}[{key_text(key)}]", levels - 1)
        if found is not None:
            return found
    return None


def key_text(key: object) -> str:
    """A key or an index as Python writes it, and never more than a few characters."""
    text = str(key) if isinstance(key, int) else json.dumps(key)
    return text if len(text) <= LONGEST_KEY else f'{text[: LONGEST_KEY - 2]}…"'


def shorten_path(path: str) -> str:
    """A path that fits in a line: its beginning and its end."""
    if len(path) <= LONGEST_PATH:
        return path
    half = LONGEST_PATH // 2
    return f"{path[:half]}…{path[-half:]}"


def plain_base(value: object) -> str:
    """The built-in type that a class of the user's extends, as named tuples do."""
    return "tuple" if isinstance(value, tuple) else ""
