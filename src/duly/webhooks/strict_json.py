"""Parsing a verified body, strictly: `parse_body` returns a `ParsedBody` and never raises.

A body that cannot be read with certainty is unreadable: too deep, too large, numbers beyond any
use, NaN, text that is no UTF-8 or that could not be written again. The event is kept all the same,
since its sender would only send the same bytes again; its ``json`` is None.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import parse_qsl

try:  # the extra `serve` brings it; without it Python's own parser does all the work
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from duly.webhooks.provider import Provider

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
ZERO = b"0"
ONE_DIGIT = bytes.maketrans(b"123456789", ZERO * 9)
# Of a run of digits that is too long, at least so many are looked at.
SAMPLES: Final = 8
# What msgspec is given to read: a tenth of the depth at which a parser in C gives up.
DEEPEST: Final = 100
SCALARS: Final = (str, int, float)
# A form never begins like this: its own brackets and quotes would be escaped.
JSON_STARTS: Final = (b"{", b"[", b'"')
ESCAPED_QUOTE = re.compile(rb'\\"')  # sooner found so than with `in`
# An escape that begins a surrogate pair, or stands alone and cannot be written as UTF-8.
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a body is read as JSON; beyond it the event has no ``json``."""

    # Deeper than any provider's events, and a tenth of what makes Python's own parser give up.
    depth: int = 100
    # GitHub sends up to 25 MB; the receiving endpoint has a lower limit of its own.
    size: int = 25 * 1024 * 1024
    # A 1,024-bit number has 309 digits; converting thousands of them takes quadratic time.
    digits: int = 400


DEFAULT_LIMITS = Limits()


# Objects that name a key more than once, by their id, each with those keys.
Repeated = dict[int, tuple[dict[str, Any], set[str]]]


class UnreadableBody(ValueError):
    """A body that is not read; the message says why, without quoting it."""


class JsonDocument(NamedTuple):
    """A JSON value, and which of its objects (by identity) have which keys more than once."""

    value: Any
    repeated: Repeated

    def ambiguous(self, node: object, key: str) -> bool:
        """Whether this object has this key more than once: two readers could see two values."""
        return id(node) in self.repeated and key in self.repeated[id(node)][1]


NO_DOCUMENT = JsonDocument(None, {})


class ParsedBody:
    """A body as JSON, as the fields of a form, or as a form that holds JSON in one field.

    ``unreadable`` says why a body is no sound JSON: it does not parse, or a selector met a key that
    is there twice. A form without JSON has a null document and is readable.
    """

    __slots__ = ("document", "form", "holds_json", "unreadable")

    def __init__(
        self,
        raw: bytes,
        limits: Limits,
        provider: Provider,
        watched: tuple[bytes, ...] | None = None,
    ) -> None:
        self.document = NO_DOCUMENT
        self.unreadable: str | None = None
        self.form = parse_form(raw) if provider.forms and looks_like_form(raw) else []
        text: bytes | None = raw
        if self.form:
            fields = [value for name, value in self.form if name == provider.form_json]
            text = fields[0].encode("utf-8", "surrogatepass") if len(fields) == 1 else None
        self.holds_json = text is not None
        if text is not None:
            try:
                keys = provider.id_keys if watched is None else watched
                self.document = parse_json(text, limits, keys)
            except UnreadableBody as problem:
                self.unreadable = str(problem)

    @property
    def json(self) -> Any:
        """The JSON document; None where the body is unreadable."""
        return None if self.unreadable else self.document.value

    def value_at(self, path: tuple[str, ...], node: Any) -> str | int | float | None:
        """The plain value at the end of a path; None where there is none, or two."""
        document = self.document
        for key in path:
            if isinstance(node, dict):
                if document.repeated and document.ambiguous(node, key):
                    self.unreadable = f"it holds the key {key!r:.40} more than once in one object"
                    return None
                node = node.get(key)
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node if isinstance(node, SCALARS) and node != "" else None


def parse_json(
    raw: bytes, limits: Limits = DEFAULT_LIMITS, watched: tuple[bytes, ...] | None = None
) -> JsonDocument:
    """The JSON value of these bytes, or `UnreadableBody`.

    Only ``watched`` keys (quoted, as they are written) must be known to be there once; all keys
    where none are named. Finding out is half the work, so it is left out where a count tells.
    """
    if len(raw) > limits.size:
        raise UnreadableBody(f"it is larger than {limits.size:,} bytes")
    if len(raw) > limits.depth and deeper_than(limits.depth, raw):
        raise UnreadableBody(f"it is nested deeper than {limits.depth} levels")
    plain = watched is not None and keys_are_unique(raw, watched)
    long_numbers = len(raw) > limits.digits and has_long_number(raw, limits.digits)
    if plain and not long_numbers:
        known = read_with_msgspec(raw, limits)
        if known is not None:
            return known
    try:
        return read_with_python(raw, limits, plain=plain, long_numbers=long_numbers)
    except UnicodeDecodeError:
        raise UnreadableBody("it is not UTF-8") from None
    except UnreadableBody:
        raise
    except (ValueError, RecursionError):
        raise UnreadableBody("it is not JSON") from None


def read_with_msgspec(raw: bytes, limits: Limits) -> JsonDocument | None:
    """The value, read at the speed of C; None where Python's parser has to say what is wrong.

    It reads UTF-8 alone, integers of any length, and neither half surrogate pairs nor infinite
    numbers. It does not know which keys are there twice, and how deep and how long is too much.
    """
    if limits.depth > DEEPEST or msgspec is None:
        return None
    try:
        return JsonDocument(msgspec.json.decode(raw), {})
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def read_with_python(
    raw: bytes, limits: Limits, *, plain: bool, long_numbers: bool
) -> JsonDocument:
    """The value, with as much care as it needs."""
    text = raw.removeprefix(BYTE_ORDER_MARK).decode()
    if long_numbers:
        found = decode_json_with_care(text, limits)
    elif plain:
        found = JsonDocument(decode_text(PLAIN, text), {})
    else:
        found = decode_json(text, limits)
    if b"\\u" in raw and SURROGATE.search(raw) and not is_encodable(found.value):
        raise UnreadableBody("it holds half a surrogate pair, which is no text")
    return found


def has_long_number(raw: bytes, digits: int) -> bool:
    """Whether more digits than this stand in a row; mostly a few samples show that none do."""
    stride = (digits + 1) // SAMPLES
    if stride > 1 and ZERO * SAMPLES not in raw[::stride].translate(ONE_DIGIT):
        return False
    return ZERO * (digits + 1) in raw.translate(ONE_DIGIT)


class RepeatedKey(Exception):
    """An object names one of its keys more than once."""


def keys_are_unique(raw: bytes, keys: tuple[bytes, ...]) -> bool:
    """Whether none of these keys can be there twice; only an escape could write one otherwise."""
    if not keys:
        return True
    escaped = b"\\u" in raw or b"\\/" in raw
    return not escaped and all([raw.count(key) <= 1 for key in keys])


def decode_text(decoder: json.JSONDecoder, text: str) -> Any:
    """The value of a text: in one step where no space is around it, which is faster."""
    if text[:1] in ("{", "["):
        value, end = decoder.raw_decode(text)
        if end == len(text):
            return value
    return decoder.decode(text)


def decode_json(text: str, limits: Limits) -> JsonDocument:
    """The value, read at full speed as long as nothing is repeated."""
    try:
        return JsonDocument(decode_text(QUICK, text), {})
    except RepeatedKey:
        return decode_json_with_care(text, limits)


def decode_json_with_care(text: str, limits: Limits) -> JsonDocument:
    """The value, with every number measured and every repeated key remembered."""
    reader = CarefulDecoder(limits)
    return JsonDocument(reader.decoder.decode(text), reader.repeated)


def object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RepeatedKey
    return found


def finite_float(digits: str) -> float:
    """A number with a fraction or an exponent."""
    value = float(digits)
    if math.isinf(value):
        raise UnreadableBody("it holds a number that no computer number can hold")
    return value


def refuse_constant(name: str) -> NoReturn:
    """NaN and the infinities, which Python would read."""
    raise UnreadableBody(f"it holds {name}, which is not JSON")


QUICK = json.JSONDecoder(
    object_pairs_hook=object_of_unique_keys,
    parse_float=finite_float,
    parse_constant=refuse_constant,
)
PLAIN = json.JSONDecoder(parse_float=finite_float, parse_constant=refuse_constant)


class CarefulDecoder:
    """Python's JSON decoder with the lax corners closed."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.repeated: Repeated = {}
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self.object,
            parse_int=self.integer,
            parse_float=self.number,
            parse_constant=refuse_constant,
        )

    def object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object; later values win, as everywhere, but it is remembered that they did."""
        found = dict(pairs)
        if len(found) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            several = {name for name, count in counts.items() if count > 1}
            self.repeated[id(found)] = (found, several)  # held, so that its id is not given again
        return found

    def integer(self, digits: str) -> int:
        """A whole number of a sensible length."""
        self.check_digits(digits)
        return int(digits)

    def number(self, digits: str) -> float:
        """The same for a number with a fraction or an exponent."""
        self.check_digits(digits)
        return finite_float(digits)

    def check_digits(self, digits: str) -> None:
        """Refuse a number of too many digits."""
        if len(digits) > self.limits.digits:
            raise UnreadableBody(f"it holds a number of more than {self.limits.digits} digits")


def deeper_than(depth: int, raw: bytes) -> bool:
    """Whether brackets nest deeper than this; each round takes the innermost pairs away."""
    marks = raw.translate(ONE_BRACKET, NOT_BRACKETS)
    if marks.count(b"[") <= depth:
        return False
    left = brackets(raw, marks)
    for _ in range(depth):
        shorter = left.replace(b"[]", b"")
        if len(shorter) == len(left):
            return False  # empty, or brackets that do not match: no JSON at all
        left = shorter
    return bool(left)


def brackets(raw: bytes, marks: bytes) -> bytes:
    """The brackets outside of strings, all of one kind, out of all brackets and quotes."""
    if b"\\" in raw and ESCAPED_QUOTE.search(raw):
        # Without them every quote that is left begins or ends a string.
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
        marks = raw.translate(ONE_BRACKET, NOT_BRACKETS)
    return b"".join(marks.replace(b'""', b"").split(b'"')[::2])


def is_encodable(value: object) -> bool:
    """Whether a value can be written as UTF-8 again."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def looks_like_form(raw: bytes) -> bool:
    """Whether a body is a form, by its bytes, which are signed, and not by its content type."""
    start = raw[:200].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return b"=" in raw and start not in JSON_STARTS


def parse_form(raw: bytes) -> list[tuple[str, str]]:
    """The fields of a form-encoded body; none where it is no form after all."""
    try:
        return form_of(raw)
    except UnreadableBody:
        return []


def form_of(raw: bytes, most: int = 1000) -> list[tuple[str, str]]:
    """The fields of a form-encoded body in their order, or `UnreadableBody`."""
    try:
        return parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=most,
        )
    except ValueError:
        raise UnreadableBody("it is not a form of UTF-8 fields") from None
