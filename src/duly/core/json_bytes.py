"""Results as UTF-8 JSON bytes, stored only if they come back as the value they were.

An error names the part of a value that JSON cannot hold, and what to write instead. It never shows
values, because they may be private; it shows keys and types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from duly.core.errors import NotStorable

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
# What a caller may hand over to be stored. Type checkers would refuse a ``dict[str, str]`` or a
# TypedDict as `Json`, whose values could be changed; what is inside is looked at when it is stored.
Storable: TypeAlias = "bool | int | float | str | list[Any] | Mapping[str, object] | None"
Stored = TypeVar("Stored", bound=Storable)

# A result is replayed to every duplicate; something larger belongs in a table of its own.
MOST_BYTES = 1024 * 1024
# Reading JSON takes a stack frame for each level, and a duplicate may be deep in its own stack.
MOST_DEPTH = 100
Nested = dict[object, object] | list[object]
PLAIN: Final = "None, a bool, a number, a string, a list or a dict with string keys"
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


def encode(value: object, what: str = "result") -> bytes:
    """Turn a JSON value into bytes, or refuse it while nothing has been written yet.

    Tuples, non-string keys, NaN and objects are refused: they would come back as something else.

    Args:
        value: what is to be stored.
        what: the caller's name for it, with which an error names the place of the fault.
    """
    verb = "return" if what == "result" else "use"
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        same = bool(json.loads(text) == value)
    except (TypeError, ValueError, RecursionError) as problem:
        found = find_unstorable(value, what)
        raise NotStorable(
            found
            or f"this {what} cannot be stored as JSON ({type(problem).__name__}): "
            f"{verb} None, a bool, a number, a string, a list or a dict with string keys"
        ) from problem
    if not same:
        raise NotStorable(
            find_unstorable(value, what)
            or f"this {what} would not come back from JSON as it was: "
            "use lists instead of tuples and strings as dict keys"
        )
    if is_deeper(value, MOST_DEPTH):
        raise NotStorable(f"this {what} is nested deeper than {MOST_DEPTH} levels: flatten it")
    if len(text) > MOST_BYTES:
        raise NotStorable(
            f"this {what} is {len(text):,} bytes, the most is {MOST_BYTES:,}: "
            f"store it in a table of yours and {verb} its id"
        )
    return text.encode()


def is_deeper(value: object, levels: int) -> bool:
    """Whether lists and dicts are nested beyond a number of levels."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, list | dict) or not isinstance(inner, Iterable):
        return False
    return levels == 0 or any(is_deeper(one, levels - 1) for one in inner)


def decode(stored: bytes | memoryview) -> Json:
    """Read back what `encode` wrote."""
    value: Json = json.loads(bytes(stored))
    return value


def find_unstorable(value: object, path: str) -> str | None:
    """A sentence about the first part that JSON cannot hold; None where none can be named.

    Args:
        value: what could not be stored.
        path: how the caller calls it, as in ``payload``.
    """
    return describe_first(value, path, MOST_DEPTH)


def describe_first(value: object, path: str, levels: int) -> str | None:
    """Describe the first such part of a part of the value, up to so many levels deep."""
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
                "turn into text or refuse: use strings as keys"
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
