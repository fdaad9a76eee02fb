"""Selectors say where in a delivery a field is: short texts that a profile holds as data.

``header:X-GitHub-Delivery``, ``body:data.object.id``, ``form:MessageSid``, ``query:token``. Parts
joined by ``+`` together make one field, a part with ``?`` may be missing, and ``|`` separates
alternatives, of which the first complete one is taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.strict_json import ParsedBody

KINDS: Final = ("header", "body", "form", "query")
FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Selector:
    """One place in a delivery."""

    kind: str
    name: str
    path: tuple[str, ...] = ()
    optional: bool = False
    spelled: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" + ("?" if self.optional else "")


@dataclass(frozen=True, slots=True)
class SelectorAlternatives:
    """Where a field is: alternatives, each of one or more selectors."""

    alternatives: tuple[tuple[Selector, ...], ...]

    def __str__(self) -> str:
        return " | ".join(" + ".join(map(str, parts)) for parts in self.alternatives)


def parse_selector(text: str) -> Selector:
    """Parse one selector."""
    if not isinstance(text, str):
        raise UsageError("a selector must be a string, such as 'body:id' or 'header:X-Event-Id'")
    kind, colon, name = text.strip().partition(":")
    optional = name.endswith("?")
    name = name.removesuffix("?").strip()
    if not colon or kind not in KINDS or not name:
        raise UsageError(
            f"a selector must be written as 'header:X-Event-Id', 'body:data.id', 'form:Sid' or "
            f"'query:token', not {text!r:.80}"
        )
    path = tuple(name.split(".")) if kind == "body" else ()
    if "" in path or set(name) & set("[]+| :"):
        raise UsageError(
            "a selector must be one name, or keys with dots between them, with spaces around + and "
            f"|: 'body:data.id', 'body:lines.0.id', 'body:a + body:b', not {text!r:.80}"
        )
    return Selector(kind, name.lower() if kind == "header" else name, path, optional, name)


def parse_alternatives(text: str) -> SelectorAlternatives:
    """Parse the selectors of one field."""
    if not isinstance(text, str):
        raise UsageError("a selector must be a string, such as 'body:id' or 'header:X-Event-Id'")
    found = SelectorAlternatives(
        tuple(
            tuple(parse_selector(part) for part in alternative.split(" + "))
            for alternative in text.split(" | ")
        )
    )
    if any(all(part.optional for part in parts) for parts in found.alternatives):
        raise UsageError(f"at least one part of a selector must not be optional: {text!r:.80}")
    return found


class DeliveryReader(NamedTuple):
    """A delivery and its parsed body, from which selectors take their values."""

    delivery: Delivery
    body: ParsedBody

    def select(
        self, alternatives: Sequence[tuple[Selector, ...]], node: object = None
    ) -> list[Any] | None:
        """The values of the first complete alternative, None for its optional parts.

        Selectors of the body start at ``node``, at the document where there is none.
        """
        body = self.body
        start = body.document.value if node is None else node
        for parts in alternatives:
            found: list[Any] = []
            for part in parts:
                if part.kind == "body":
                    value: object = body.value_at(part.path, start)
                else:
                    value = self.value(part)
                if value is None and not part.optional:
                    break
                found.append(value)
            else:
                return found
        return None

    def value(self, selector: Selector, node: object = None) -> str | int | float | None:
        """One plain value; None where there is none, or more than one."""
        kind = selector.kind
        if kind == "body":
            start = self.body.document.value if node is None else node
            return self.body.value_at(selector.path, start)
        if kind == "header":
            return self.delivery.header_text(selector.name)
        if kind == "form":
            return single_value([text for name, text in self.body.form if name == selector.name])
        return query_value(self.delivery.url, selector.name)


def query_value(url: str | None, name: str) -> str | None:
    """The value of a URL's parameter that is there once."""
    try:
        asked = parse_qsl(urlsplit(url or "").query, max_num_fields=1000)
    except ValueError:
        return None
    return single_value([value for key, value in asked if key == name])


def single_value(values: list[str]) -> str | None:
    """The value of a field that is there once."""
    return values[0] if len(values) == 1 and values[0] else None


def join_values(values: list[Any]) -> str:
    """The parts of an id as one text: several as a JSON list, so that no two lists are one text."""
    texts = [None if value is None else text_of(value) for value in values]
    if len(texts) == 1 and texts[0] is not None and not texts[0].startswith("["):
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def text_of(value: object) -> str:
    """A plain value as text, so that ``881`` and ``"881"`` are one id."""
    return str(value).lower() if isinstance(value, bool) else str(value)
