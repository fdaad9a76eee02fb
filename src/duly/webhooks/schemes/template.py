"""What is signed: a template over the delivery, put together from its raw bytes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.delivery import Delivery, fields_of

if TYPE_CHECKING:
    from duly.webhooks.schemes.scheme import Draft
    from duly.webhooks.selectors import Selector

PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")

# A part of the signed bytes, from the delivery and the timestamp as it was written.
Part = Callable[["Delivery", bytes], bytes]


class Content(ABC):
    """The bytes that a signature covers."""

    __slots__ = ()

    @abstractmethod
    def variants(self, delivery: Delivery, timestamp: bytes) -> list[bytes]:
        """The signed bytes; several where a sender is known to write them in more than one way."""

    @abstractmethod
    def covers(self, selector: Selector) -> bool:
        """Whether a selector is among what is signed."""

    def dedup_content(self, delivery: Delivery) -> bytes:
        """What makes two deliveries the same one."""
        return delivery.body

    def to_sign(self, delivery: Delivery, timestamp: bytes) -> bytes:
        """The variant that the sender writes."""
        return self.variants(delivery, timestamp)[0]

    @property
    def has_adjacent_timestamp(self) -> bool:
        """Whether something stands right before the timestamp, and could lend it a zero."""
        return False

    def prepare(self, draft: Draft) -> None:  # noqa: B027  # most have nothing to prepare
        """Change a draft so that it can be signed."""


@dataclass(frozen=True, slots=True)
class Template(Content):
    """Literal text with ``{timestamp}``, ``{body}``, ``{url}``, ``{method}``, ``{header:Name}``.

    ``unescaped`` lists characters that some senders write plainly in the URL that they sign, though
    the URL that they call has them escaped; both ways are then tried.
    """

    text: str
    unescaped: str = ""
    render: Part = field(init=False, repr=False, compare=False)
    headers: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: list[str] = PLACEHOLDER.findall(self.text)
        if not names:
            raise UsageError("a template must hold what is signed, such as '{timestamp}.{body}'")
        object.__setattr__(self, "render", renderer(self.text, names))
        object.__setattr__(self, "headers", bounded_headers(self.text))

    def variants(self, delivery: Delivery, timestamp: bytes) -> list[bytes]:
        contents = [self.render(delivery, timestamp)]
        if self.unescaped and delivery.url is not None and "%" in delivery.url:
            plain = delivery.with_url(unescape_characters(delivery.url, self.unescaped))
            contents.append(self.render(plain, timestamp))
        return contents

    def to_sign(self, delivery: Delivery, timestamp: bytes) -> bytes:
        return self.variants(delivery, timestamp)[-1]

    @property
    def has_adjacent_timestamp(self) -> bool:
        return "}{timestamp}" in self.text

    def covers(self, selector: Selector) -> bool:
        match selector.kind:
            case "header":
                return selector.name in self.headers
            case "query":
                return "{url}" in self.text
            case _:
                return "{body}" in self.text


def renderer(text: str, names: list[str]) -> Part:
    """A template as a function; the shapes that most senders use take the shortest way."""
    literal = PLACEHOLDER.sub("\0", text.replace("%", "%%"))
    pattern = literal.encode().replace(b"\0", b"%b")
    ends = [one[:1].encode() for one in PLACEHOLDER.split(text)[2::2]]
    parts = [part_of(name, end) for name, end in zip(names, ends, strict=True)]
    if text == "{body}":
        return lambda delivery, _: delivery.body
    if names == ["timestamp", "body"]:
        return lambda delivery, timestamp: pattern % (timestamp, delivery.body)
    return lambda delivery, timestamp: pattern % tuple([one(delivery, timestamp) for one in parts])


def unescape_characters(url: str, characters: str) -> str:
    """A URL with these characters, and no others, written plainly."""
    for one in characters:
        escaped = f"%{ord(one):02X}"
        url = url.replace(escaped, one).replace(escaped.lower(), one)
    return url


def bounded_headers(text: str) -> frozenset[str]:
    """The headers with something fixed on either side: the others can lend or borrow characters."""
    pieces = PLACEHOLDER.split(text)  # literal, name, literal, name, …, literal
    last = len(pieces) - 2
    found = set()
    for index in range(1, len(pieces), 2):
        before = bool(pieces[index - 1]) or index == 1
        behind = bool(pieces[index + 1]) or index == last
        if pieces[index].startswith("header:") and before and behind:
            found.add(pieces[index][7:].lower())
    return frozenset(found)


def part_of(name: str, end: bytes) -> Part:
    """The function behind one placeholder, and the character that ends it."""
    if name.startswith("header:") and name[7:]:
        header = name[7:].lower()
        return lambda delivery, _: delimited_header(delivery, header, end)
    if name not in PARTS:
        known = ", ".join(f"{{{one}}}" for one in (*PARTS, "header:Name"))
        raise UsageError(f"a template must use {known}, not {{{name:.40}}}")
    return PARTS[name]


def method_of(delivery: Delivery) -> bytes:
    """The method, in the capitals that are signed."""
    if not isinstance(delivery.method, str):
        raise UsageError("method must be a string such as 'POST'")
    try:
        return delivery.method.encode("ascii").upper()
    except UnicodeEncodeError:
        raise Rejected(Code.MALFORMED, "the method is no method of HTTP") from None


PARTS: Final[dict[str, Part]] = {
    "timestamp": lambda _, timestamp: timestamp,
    "body": lambda delivery, _: delivery.body,
    "url": lambda delivery, _: delivery.required_url(),
    "method": lambda delivery, _: method_of(delivery),
}


def delimited_header(delivery: Delivery, header: str, end: bytes) -> bytes:
    """A header that is signed, and does not hold the character that ends it."""
    value = required_header(delivery, header)
    if end and end in value:
        raise Rejected(Code.MALFORMED, f"the header {header} holds what stands behind it")
    return value


def required_header(delivery: Delivery, header: str) -> bytes:
    """A header without which nothing can be checked."""
    value = delivery.header_bytes(header)
    if value is None:
        raise Rejected(Code.MALFORMED, f"the header {header} is missing")
    return value


def content_of(signed: str | Content) -> Content:
    """A template given as text, or content of another kind as it is."""
    return Template(signed) if isinstance(signed, str) else signed


def delivery_of_draft(draft: Draft) -> Delivery:
    """A draft as the receiver will see it."""
    return Delivery(fields_of(draft.headers), draft.body, draft.url, draft.method, 0.0)
