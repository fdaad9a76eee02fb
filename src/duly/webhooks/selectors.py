"""Where in a delivery a fact is: a short text that a profile can hold as data.

``header:X-GitHub-Delivery``, ``body:data.object.id``, ``form:MessageSid``, ``query:token``. Parts
joined by ``+`` together make one fact, a part with ``?`` may be missing, and ``|`` separates
alternatives, of which the first complete one is taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from duly.core.errors import UsageError
from duly.webhooks.strict_json import JsonDocument, UnreadableBody, form_of, parse_json

if TYPE_CHECKING:
    from duly.webhooks.delivery import Delivery
    from duly.webhooks.provider import Provider
    from duly.webhooks.strict_json import Limits

KINDS: Final = ("header", "body", "form", "query")
FORM: Final = "application/x-www-form-urlencoded"
# A form never begins like this: its own brackets and quotes would be escaped.
JSON_STARTS: Final = (b"{", b"[", b'"')


@dataclass(frozen=True, slots=True)
class Selector:
    """One spot in a delivery."""

    kind: str
    name: str
    path: tuple[str, ...] = ()
    optional: bool = False
    spelled: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" + ("?" if self.optional else "")


@dataclass(frozen=True, slots=True)
class SelectorAlternatives:
    """A fact of a profile: alternatives, each of one or more places."""

    alternatives: tuple[tuple[Selector, ...], ...]

    def __str__(self) -> str:
        return " | ".join(" + ".join(map(str, parts)) for parts in self.alternatives)


def parse_selector(text: str) -> Selector:
    """One place from its text."""
    if not isinstance(text, str):
        raise UsageError("a place must be a string, such as 'body:id' or 'header:X-Event-Id'")
    kind, colon, name = text.strip().partition(":")
    optional = name.endswith("?")
    name = name.removesuffix("?").strip()
    if not colon or kind not in KINDS or not name:
        raise UsageError(
            f"a place must be written as 'header:X-Event-Id', 'body:data.id', 'form:Sid' or "
            f"'query:token', not {text!r:.80}"
        )
    path = tuple(name.split(".")) if kind == "body" else ()
    if "" in path or set(name) & set("[]+| :"):
        raise UsageError(
            "a place must be one name, or keys with dots between them, and spaces around + and |: "
            f"'body:data.id', 'body:lines.0.id', 'body:a + body:b', not {text!r:.80}"
        )
    return Selector(kind, name.lower() if kind == "header" else name, path, optional, name)


def parse_alternatives(text: str) -> SelectorAlternatives:
    """A fact's whereabouts from its text."""
    if not isinstance(text, str):
        raise UsageError("a place must be a string, such as 'body:id' or 'header:X-Event-Id'")
    spot = SelectorAlternatives(
        tuple(
            tuple(parse_selector(part) for part in alternative.split(" + "))
            for alternative in text.split(" | ")
        )
    )
    if any(all(part.optional for part in parts) for parts in spot.alternatives):
        raise UsageError(f"at least one part of a place must not be optional: {text!r:.80}")
    return spot


class DeliveryReader:
    """What a verified delivery says, read when it is first asked for and remembered."""

    __slots__ = ("_form", "_parsed", "delivery", "form_json", "forms", "limits", "odd", "watched")

    def __init__(
        self, delivery: Delivery, limits: Limits, provider: Provider | None = None
    ) -> None:
        self.delivery = delivery
        self.limits = limits
        self.forms = provider is not None and provider.forms
        self.form_json = None if provider is None else provider.form_json
        self.watched = None if provider is None else provider.id_keys
        self.odd: str | None = None
        self._parsed: JsonDocument | None = None
        self._form: list[tuple[str, str]] | None = None

    @property
    def document(self) -> JsonDocument:
        """The body as JSON; an odd one is null, and ``odd`` says why. A form is null, not odd."""
        if self._parsed is None:
            self._parsed = JsonDocument(None, {})
            raw = self.json_bytes()
            if raw is not None:
                try:
                    self._parsed = parse_json(raw, self.limits, self.watched)
                except UnreadableBody as problem:
                    self.odd = str(problem)
        return self._parsed

    def json_bytes(self) -> bytes | None:
        """The part of the body that is JSON: all of it, one field of a form, or nothing."""
        if not self.form:
            return self.delivery.body
        texts = [value for name, value in self.form if name == self.form_json]
        return texts[0].encode("utf-8", "surrogatepass") if len(texts) == 1 else None

    @property
    def form(self) -> list[tuple[str, str]]:
        """The fields of a form-encoded body; none where it is no form."""
        if self._form is None:
            try:
                self._form = form_of(self.delivery.body) if self.is_form() else []
            except UnreadableBody:
                self._form = []
        return self._form

    def is_form(self) -> bool:
        """Whether the body is a form: told by the body, which is signed, not by its label."""
        start = self.delivery.body[:200].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        return self.forms and b"=" in self.delivery.body and start not in JSON_STARTS

    def first_complete(
        self, spot: SelectorAlternatives | None, node: object = None
    ) -> list[Any] | None:
        """The values of the first complete alternative; places in the body start at ``node``."""
        for parts in () if spot is None else spot.alternatives:
            found = self.all_values(parts, node)
            if found is not None:
                return [value for value in found if value is not None]
        return None

    def all_values(self, parts: tuple[Selector, ...], node: object = None) -> list[Any] | None:
        """The values of all parts, None for optional ones; None if any other is missing."""
        found: list[Any] = []
        for part in parts:
            value = self.value(part, node)
            if value is None and not part.optional:
                return None
            found.append(value)
        return found

    def value(self, place: Selector, node: object = None) -> str | int | float | None:
        """One plain value; None where there is none, or where it cannot be told which it is."""
        kind = place.kind
        if kind == "body":
            return self.walk(place.path, self.document.value if node is None else node)
        if kind == "header":
            return self.delivery.header_text(place.name)
        if kind == "form":
            return single_value([value for name, value in self.form if name == place.name])
        return single_value(self.query(place.name))

    def query(self, name: str) -> list[str]:
        """The values of a parameter of the URL."""
        try:
            asked = parse_qsl(urlsplit(self.delivery.url or "").query, max_num_fields=1000)
        except ValueError:
            return []
        return [value for key, value in asked if key == name]

    def walk(self, path: tuple[str, ...], node: Any) -> str | int | float | None:
        """Down the keys of a path to a plain value."""
        for key in path:
            if isinstance(node, dict):
                if self.document.repeated and self.document.ambiguous(node, key):
                    self.odd = f"it holds the key {key!r:.40} more than once in one object"
                    return None
                node = node.get(key)
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node if isinstance(node, str | int | float) and node != "" else None


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
