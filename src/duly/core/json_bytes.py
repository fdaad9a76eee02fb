"""Results as UTF-8 JSON bytes, stored only if they come back as the value they were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from duly.core.errors import NotStorable
from duly.core.unstorable import find_unstorable

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
# What a caller may hand over to be stored. Type checkers would refuse a ``dict[str, str]`` or a
# TypedDict as `Json`, whose values could be changed; what is inside is looked at when it is stored.
Storable: TypeAlias = "bool | int | float | str | list[Any] | Mapping[str, object] | None"
Stored = TypeVar("Stored", bound=Storable)

# A result is replayed to every duplicate; something larger belongs in a table of its own.
MOST_BYTES = 1024 * 1024
# Reading JSON takes a stack frame for each level, and a duplicate may be deep in its own stack.
MOST_DEPTH = 100


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
