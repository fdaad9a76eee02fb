"""Reading a few values of a JSON body without building the document.

`msgspec` finds the places, where it is installed. It is fast because it skips what it is not asked
for, and it skips over text that is no UTF-8, numbers beyond any use, any depth, and the first of
two equal keys. What it does not look at is looked at here, so that the values are those of
`ParsedBody`, or `NotPlain` is raised and `ParsedBody` has to read the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from duly.webhooks.strict_json import Limits, ParsedBody, deeper_than

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from duly.webhooks.provider import Provider

    # The keys on the way to a value.
    Path: TypeAlias = tuple[str, ...]
    Value: TypeAlias = str | int | float | None
    # The value of every path, in their order.
    Reader: TypeAlias = Callable[[bytes], Sequence[Value]]

WHITE_SPACE: Final = b" \t\r\n"
# Numbers as zeros without signs, an exponent's letter in lower case, and brackets of one kind.
SHAPE: Final = bytes.maketrans(b"123456789.E{", b"0" * 10 + b"e[")
SIGNS: Final = b"+-"
OPENS_OBJECT: Final = ord("{")
# Behind these a value begins.
BEFORE_VALUE: Final = b"[:, \t\r\n"
# An exponent with three digits can overflow, and so can 309 digits with a fraction.
LARGE_EXPONENT: Final = re.compile(rb"0e000")
MANY_DIGITS: Final = 200
# The longest mantissa: no run of so many digits is taken, with the dot among them.
MANTISSA: Final = MANY_DIGITS
# A tenth of what makes any parser give up.
DEEPEST: Final = 100


class NotPlain(Exception):
    """A body that the whole parser has to read."""


def compile_reader(paths: Sequence[Path], provider: Provider, limits: Limits) -> Reader | None:
    """The reader of these paths, for bodies that are an object; None where it cannot be sure."""
    if msgspec is None:
        return strict_reader(paths, provider, limits)
    in_lists = any(key.isdecimal() for path in paths for key in path)
    if in_lists or limits.depth > DEEPEST:
        return None
    read_into = branch_reader([(number, path) for number, path in enumerate(paths)])
    blank: list[Value] = [None] * len(paths)

    def read(raw: bytes) -> Sequence[Value]:
        check_skipped(raw, limits)
        values = blank.copy()
        read_into(raw, values)
        return values

    return read


def strict_reader(paths: Sequence[Path], provider: Provider, limits: Limits) -> Reader:
    """The same by way of the whole document."""

    def read(raw: bytes) -> Sequence[Value]:
        body = ParsedBody(raw, limits, provider)
        values = [body.value_at(path, body.document.value) for path in paths]
        if body.unreadable is not None:
            raise NotPlain
        return values

    return read


def check_skipped(raw: bytes, limits: Limits) -> None:
    """Raise `NotPlain` where a skipped value may be one that makes a body unreadable."""
    shape = raw.translate(SHAPE, SIGNS)
    if (
        len(raw) > limits.size
        or not (raw.isascii() or is_utf8(raw))
        or (shape.count(b"[") > limits.depth and deeper_than(limits.depth, raw))
        or b"0" * min(MANY_DIGITS, limits.digits) in shape
        or has_large_exponent(shape)
    ):
        raise NotPlain


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are text."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def has_large_exponent(shape: bytes) -> bool:
    """Whether a number, and not only a word such as ``3e400a``, has an exponent of three digits."""
    for found in LARGE_EXPONENT.finditer(shape):
        at = found.start()
        before = shape[max(at - MANTISSA, 0) : at].rstrip(b"0")
        if not before or before[-1] in BEFORE_VALUE:
            return True
    return False


# Puts the values of some paths into a list, each at its number.
ReadInto: TypeAlias = Callable[[Any, list[Any]], None]


def branch_reader(paths: Sequence[tuple[int, Path]]) -> ReadInto:
    """The reader of the paths that begin in one object."""
    leaves = tuple((number, path[0]) for number, path in paths if len(path) == 1)
    inner: dict[str, list[tuple[int, Path]]] = {}
    for number, path in paths:
        if len(path) > 1:
            inner.setdefault(path[0], []).append((number, path[1:]))
    branches = tuple((key, branch_reader(below)) for key, below in inner.items())
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def read_into(raw: Any, values: list[Any]) -> None:
        get = unique_members(decode, raw).get
        for number, key in leaves:
            value = get(key)
            if value is not None:
                values[number] = value_of(bytes(value))
        for key, read_below in branches:
            value = get(key)
            if value is not None and memoryview(value)[0] == OPENS_OBJECT:
                read_below(value, values)

    return read_into


def unique_members(decode: Callable[[Any], dict[str, Any]], raw: Any) -> dict[str, Any]:
    """The members of an object as they are written, or `NotPlain` where a key may be there twice.

    Written without white space, the members make up the whole object, unless one replaced another.
    """
    try:
        members = decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NotPlain from None
    length = 4 * len(members) + 1  # quotes, a colon and a comma for each, and the brackets
    length += sum(map(len, members)) + sum(map(len, members.values()))
    if length != len(raw) and members and not is_made_of(bytes(raw), members):
        raise NotPlain
    return members


def is_made_of(raw: bytes, members: Mapping[str, Any]) -> bool:
    """Whether an object has these members and no more: written out again, they are its bytes.

    Then no key is there twice, in any spelling. A style of white space that is not known here is
    taken for a doubt.
    """
    text = raw.strip(WHITE_SPACE)[1:-1]
    inner = text.lstrip(WHITE_SPACE)
    head = text[: len(text) - len(inner)]
    first = len(next(iter(members)).encode()) + 2
    behind = inner[first : first + 3]
    colon = b'" : ' if behind == b" : " else b'": ' if behind.startswith(b": ") else b'":'
    comma = b"," + head + b'"' if head or colon == b'":' else b', "'
    written = [colon.join((name.encode(), value)) for name, value in members.items()]
    return b'"' + comma.join(written) == inner.rstrip(WHITE_SPACE)


def value_of(text: bytes) -> str | int | float | None:
    """A plain value as the whole parser reads it; None for an object, a list, null and nothing."""
    first = text[0]
    if first == 0x22:  # a quote
        if b"\\" in text:
            escaped: str = msgspec.json.decode(text, type=str)
            return escaped
        return text[1:-1].decode() or None
    if text.isdigit():
        return int(text)
    if first in b"{[n":
        return None
    if first in b"tf":
        return first == 0x74
    return float(text) if b"." in text or b"e" in text.lower() else int(text)
