"""Calls to the outside as they were recorded, and when two of them count as one."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field, replace
from email import message_from_string
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlsplit

from duly.prove.keys import find_keys

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from pathlib import Path

Medium = Literal["http", "mail", "message"]
# Reading changes nothing, however often.
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# By their definition the second of the same changes nothing, and what they say replaces the rest.
IDEMPOTENT = frozenset({"PUT", "DELETE"})
KEYS = ("idempotency-key", "x-idempotency-key", "webhook-id", "paypal-request-id")
# Where the same stands in a body or a query: Square's idempotency_key, idempotencyKey in GraphQL.
NAMED = re.compile(r"(x[_-]?)?idempotency[_-]?(key|token|id)", re.IGNORECASE)
# What a mail is given anew each time it is written.
OF_THE_MOMENT = frozenset({"date", "message-id", "mime-version", "content-type"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call: an HTTP request, an e-mail, or a message of duly's outbox."""

    medium: Medium
    method: str
    url: str
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    # The id of a message, which the relay sends along in every attempt.
    id: str | None = None
    # A key that `job.key` made, wherever in the call it stands.
    made: str | None = None

    @property
    def key(self) -> str | None:
        """The idempotency keys of the call."""
        known = {name.lower(): value for name, value in self.headers.items()}
        in_header = next((known[name] for name in KEYS if known.get(name)), None)
        if self.id or in_header or self.medium == "mail":
            return self.id or in_header
        return " ".join(named_keys(self.content)) or self.made

    @property
    def repeats(self) -> Hashable:
        """What the other side recognises a repeat of this call by."""
        return (*self.origin, self.key)

    @property
    def sets(self) -> bool:
        """Whether it replaces what is at an address, by the definition of its method."""
        return self.medium != "mail" and self.method in IDEMPOTENT

    @property
    def summary(self) -> str:
        """The call in a few words."""
        if self.medium == "mail":
            return f"the e-mail to {self.url.partition(':')[2]}"
        if self.medium == "message":
            return f"the message to {self.url}"
        return f"{self.method} {self.url}"

    @property
    def origin(self) -> tuple[str, str, str]:
        """What is the same of it in every run: not its parameters."""
        parts = urlsplit(self.url)
        return self.medium, self.method, f"{parts.scheme}:{parts.netloc}{parts.path}"

    @property
    def content(self) -> Any:
        """What it says, as far as it can be taken apart."""
        if self.medium == "mail":
            return mail_content(self.body)
        query = parse_form(urlsplit(self.url).query)
        return {"query": query, "body": body_content(self.body, self.headers)}


def mail_content(text: str) -> dict[str, str]:
    """An e-mail without what is new in each copy of it."""
    mail = message_from_string(text)
    lines = [] if mail.is_multipart() else str(mail.get_payload()).splitlines()
    for part in mail.walk() if mail.is_multipart() else ():
        if not part.is_multipart():
            lines += str(part.get_payload()).splitlines()
    told = {name: str(value) for name, value in mail.items() if name.lower() not in OF_THE_MOMENT}
    return {**told, "text": "\n".join(lines).strip()}


def body_content(text: str, headers: dict[str, str]) -> Any:
    """A body as JSON or as a form where it is one, or else as it stands.

    What it is labelled as comes second: urllib calls every body a form that is not called anything.
    """
    try:
        return json.loads(text) if text else None
    except ValueError:
        kinds = [value for name, value in headers.items() if name.lower() == "content-type"]
    if kinds and kinds[0].lower().startswith("application/x-www-form-urlencoded"):
        return parse_form(text) or text
    return text


def parse_form(text: str) -> dict[str, str | list[str]]:
    """A form, or a query, with all that is in it: a name may come twice, or without a value."""
    # What is not UTF-8 is kept apart as well.
    found = parse_qs(text, keep_blank_values=True, errors="surrogateescape")
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def named_keys(value: Any) -> Iterator[str]:
    """What stands in a document where, by its name, an idempotency key does."""
    if isinstance(value, dict):
        for name, one in value.items():
            if isinstance(one, str) and one and NAMED.fullmatch(str(name)):
                yield one
            yield from named_keys(one)
    elif isinstance(value, list):
        for one in value:
            yield from named_keys(one)


def select_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers that say what a call is; never those that hold a secret."""
    return {
        name: value
        for name, value in headers
        if name.lower() in (*KEYS, "content-type") or find_keys(value) is not None
    }


def append_call(path: Path, call: Call) -> None:
    """Record a call, in one write: the process may die right after it."""
    call = replace(call, made=find_keys(call.url, call.body, *call.headers.values()))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(asdict(call)).encode() + b"\n")
    finally:
        os.close(file)


def read_calls(path: Path) -> list[Call]:
    """The calls of a case, of all its processes, as they were made."""
    if not path.exists():
        return []
    return [Call(**json.loads(line)) for line in path.read_text().splitlines()]


def effective_calls(calls: Iterable[Call]) -> list[Call]:
    """The calls that take effect, each at its place.

    The other side knows some by their keys. And of those that set what is at an address, or remove
    it, only the last one is still there when all is quiet.
    """
    found: dict[Hashable, Call] = {}
    known: set[Hashable] = set()
    for number, call in enumerate(calls):
        if call.method in SAFE or call.repeats in known:
            continue
        if call.key is not None:
            known.add(call.repeats)
        name: Hashable = call.url if call.sets else number
        found.pop(name, None)
        found[name] = call
    return list(found.values())


def changed_repeats(calls: Iterable[Call]) -> list[str]:
    """The calls that were repeated under one key with another body, as text for the report."""
    first: dict[Hashable, Call] = {}
    found: dict[str, None] = {}
    for call in calls:
        if call.key is None or call.method in SAFE:
            continue
        if first.setdefault(call.repeats, call).content != call.content:
            found[call.summary] = None
    return list(found)
