"""A delivery before verification: headers by lower-case name, raw bytes, URL and time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from duly.core.errors import Code, Rejected, UsageError
from duly.core.validation import kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Text: TypeAlias = "str | bytes"
Headers: TypeAlias = "Mapping[str, Any] | Mapping[bytes, Any] | Iterable[tuple[Text, Text]]"
Moment: TypeAlias = "datetime | float | None"

# A header that was sent more than once holds the list of its values.
Fields: TypeAlias = "dict[str, str | bytes | list[str | bytes]]"

lower = str.lower


class Delivery:
    """A request that was read and is not verified yet."""

    __slots__ = ("body", "fields", "method", "now", "url")

    def __init__(self, fields: Fields, body: bytes, url: str | None, method: str, now: float):
        self.fields = fields
        self.body = body
        self.url = url
        self.method = method
        self.now = now

    def has(self, name: str) -> bool:
        """Whether a header is there at all; names are asked for in lower case."""
        return name in self.fields

    def header_bytes(self, name: str) -> bytes | None:
        """The bytes of a header that may be there once."""
        value = self.fields.get(name)
        if value is None:
            return None
        if value.__class__ is not str:
            value = self.single_value(name, value)
        if value is None or isinstance(value, bytes):
            return value
        try:
            return str(value).encode("latin-1")
        except UnicodeEncodeError:
            raise Rejected(Code.MALFORMED, f"the header {name} is not latin-1") from None

    def single_value(self, name: str, value: object) -> str | bytes | None:
        """The one value of a header, which some objects hold in a list."""
        values = values_of(value)
        if not values:
            return None
        if len(values) > 1:
            raise Rejected(Code.MALFORMED, f"the header {name} was sent more than once")
        if not isinstance(values[0], str | bytes):
            raise UsageError(f"a header must be text or bytes, not {kind(values[0])}: check {name}")
        return values[0]

    def header_text(self, name: str) -> str | None:
        """A header for people and keys; None where it is missing, repeated or empty."""
        known = self.fields.get(name)
        if known.__class__ is str:  # nearly always
            return known or None
        values = values_of(known)
        value = values[0] if len(values) == 1 else None
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        return str(value) if isinstance(value, str) and value else None

    def with_url(self, url: str) -> Delivery:
        """The same delivery as if it had come to another URL."""
        return Delivery(self.fields, self.body, url, self.method, self.now)

    def required_url(self) -> bytes:
        """The URL as the sender wrote it, for the schemes that sign it."""
        if not isinstance(self.url, str):
            raise UsageError(
                "this provider signs the URL: give it to the source, Source(…, url='https://…') or "
                f"pass url= as a string, not {kind(self.url)}"
            )
        try:
            return self.url.encode()
        except UnicodeEncodeError:
            raise Rejected(Code.MALFORMED, "the URL is not text that can be signed") from None


def checked_body(body: object) -> bytes:
    """Only bytes: text has been decoded, and parsed JSON is no longer what was signed."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise UsageError(
        f"body must be the raw bytes as they arrived, not {kind(body)}: "
        "use await request.body(), request.get_data() or request.body"
    )


def seconds_of(now: object) -> float:
    """A moment as seconds since 1970."""
    if isinstance(now, datetime):
        if now.utcoffset() is None:
            raise UsageError("now must be an aware datetime: use datetime.now(UTC)")
        return now.timestamp()
    if isinstance(now, int | float) and not isinstance(now, bool) and -1e12 < now < 1e12:
        return float(now)
    if isinstance(now, int | float) and not isinstance(now, bool):
        raise UsageError(
            "now must be seconds since 1970: this is out of range, perhaps milliseconds"
        )
    raise UsageError(f"now must be an aware datetime or seconds since 1970, not {kind(now)}")


def fields_of(headers: object) -> Fields:
    """The headers by lower-case name, from a mapping or from pairs, in text or in bytes."""
    if headers.__class__ is not dict:
        return fields_with_care(headers)
    known = cast("dict[str, str]", headers)
    try:
        fields: Fields = {lower(name): value for name, value in known.items()}
    except TypeError:  # names in bytes
        return fields_with_care(headers)
    return fields if len(fields) == len(known) else fields_with_care(headers)


def fields_with_care(headers: object) -> Fields:
    """The headers by lower-case name, from anything but a plain dict, or with repeated names."""
    fields: Fields = {}
    items = getattr(headers, "items", None)
    try:
        pairs: Any = headers if items is None else items()
        flat = [(name, value) for name, values in pairs for value in values_of(values)]
    except (TypeError, ValueError):
        raise UsageError(
            f"headers must be a mapping or a list of (name, value) pairs, not {kind(headers)}"
        ) from None
    for name, value in flat:
        add_header(fields, name, value)
    return fields


def values_of(values: object) -> Sequence[object]:
    """The values of one header: some objects hold them in a list."""
    return values if isinstance(values, list | tuple) else (values,)


def add_header(fields: Fields, name: object, value: object) -> None:
    """One more value of a header."""
    if isinstance(name, bytes):
        name = name.decode("latin-1")
    if not isinstance(name, str) or not isinstance(value, str | bytes):
        raise UsageError(f"a header must be text or bytes, not {kind(name)} with {kind(value)}")
    name = name.lower()
    earlier = fields.get(name)
    if earlier is None:
        fields[name] = value
    elif isinstance(earlier, list):
        earlier.append(value)
    else:
        fields[name] = [earlier, value]
