"""Questions that a provider asks its endpoint before, or while, it sends events.

A profile says which delivery is a question and what the answer is made of. An answer that proves
knowledge of the secret is only given for plain tokens: otherwise anyone could have the endpoint
sign an event for them.
"""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from duly.core.errors import UsageError
from duly.webhooks.schemes.encodings import ENCODERS, checked_digest, checked_encoding
from duly.webhooks.selectors import (
    Selector,
    SelectorAlternatives,
    parse_alternatives,
    parse_selector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.webhooks.schemes.hmac import SharedKey
    from duly.webhooks.selectors import DeliveryReader

# What a token of a handshake looks like; no event is written with these characters alone.
TOKEN: Final = re.compile(
    r"(?=[^A-Za-z]*[A-Za-z])(?!true|false|null|\d+[eE])[A-Za-z0-9_+/-]{1,256}={0,2}"
)


@dataclass(frozen=True, slots=True)
class HandshakeReply:
    """An answer, ready to be sent."""

    status: int
    body: bytes = b""
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Echo:
    """A part of an answer: what a selector finds in the question."""

    place: str
    selector: SelectorAlternatives = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "selector", parse_alternatives(self.place))

    def value(self, reader: DeliveryReader, key: object) -> object:  # noqa: ARG002
        """What the selector finds."""
        found = reader.select(self.selector.alternatives)
        return None if found is None else next(one for one in found if one is not None)


@dataclass(frozen=True, slots=True)
class Mac:
    """A part of an answer: the HMAC of a token that the question carries."""

    place: str
    digest: str = "sha256"
    encoding: str = "hex"
    prefix: str = ""
    selector: Selector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_digest(self.digest)
        checked_encoding(self.encoding)
        object.__setattr__(self, "selector", parse_selector(self.place))

    def value(self, reader: DeliveryReader, key: SharedKey | None) -> str | None:
        """The HMAC of a plain token, and of nothing else."""
        token = reader.value(self.selector)
        if key is None or not isinstance(token, str) or not TOKEN.fullmatch(token):
            return None
        raw = hmac.digest(key.raw, token.encode(), self.digest)
        return self.prefix + ENCODERS[self.encoding](raw).decode()


@dataclass(frozen=True, slots=True)
class Handshake:
    """One question and its answer.

    Args:
        when: selectors and the values that make a delivery this question; None means any value.
        reply: the answer: the members of a JSON object, one value as plain text, or nothing.
        unless: a selector that must find nothing.
        status: the status of the answer.
        signed: whether the question must be verified first, like any delivery.
        method: the method of the question.
    """

    when: Mapping[str, object]
    reply: Mapping[str, object] | Echo | Mac | None = None
    unless: str | None = None
    status: int = 200
    signed: bool = True
    method: str = "POST"

    def __post_init__(self) -> None:
        if not self.when:
            raise UsageError(
                "a handshake must say when: a delivery that has nothing special is an event"
            )
        for text in (*self.when, *([] if self.unless is None else [self.unless])):
            parse_selector(text)

    def matches(self, reader: DeliveryReader) -> bool:
        """Whether a delivery is this question."""
        if reader.delivery.method.upper() != self.method:
            return False
        if self.unless is not None and is_filled(reader, parse_selector(self.unless)):
            return False
        return all(
            holds_value(reader, parse_selector(text), value) for text, value in self.when.items()
        )

    def answer(self, reader: DeliveryReader, key: SharedKey | None) -> HandshakeReply | None:
        """The answer; None where the question lacks what the answer is made of."""
        if self.reply is None:
            return HandshakeReply(self.status)
        if isinstance(self.reply, Echo | Mac):
            text = self.reply.value(reader, key)
            plain = b"" if text is None else str(text).encode("utf-8", "ignore")
            return HandshakeReply(self.status, plain, "text/plain") if plain else None
        members = {name: render_member(value, reader, key) for name, value in self.reply.items()}
        if any(value is None for value in members.values()):
            return None
        return HandshakeReply(self.status, json.dumps(members).encode(), "application/json")


def render_member(value: object, reader: DeliveryReader, key: SharedKey | None) -> object:
    """One member of an answer."""
    return value.value(reader, key) if isinstance(value, Echo | Mac) else value


def holds_value(reader: DeliveryReader, selector: Selector, expected: object) -> bool:
    """Whether a selector finds this value; None stands for any."""
    found = reader.value(selector)
    if expected is None:
        return found is not None
    return type(found) is type(expected) and found == expected  # True is not 1


def is_filled(reader: DeliveryReader, selector: Selector) -> bool:
    """Whether a selector finds anything at all, be it an object."""
    if selector.kind != "body":
        return reader.value(selector) is not None
    node = reader.body.document.value
    for key in selector.path:
        if not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return True
