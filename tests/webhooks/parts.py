"""The parts of a delivery that a scheme signs, each as bytes that can be changed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.webhooks import BasicAuth, Jwt, SharedToken, SignedFields, StandardWebhooks, UrlAndForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.webhooks.arena import Arrival, Case


def signed_parts(case: Case) -> list[str]:
    """``body``, ``url``, ``method`` and ``header:…``, the signature's own included."""
    scheme = case.scheme
    match scheme:
        case StandardWebhooks():
            names = ("id", "timestamp", "signature")
            return [*(f"header:{scheme.prefix}{name}" for name in names), "body"]
        case Jwt():
            return [f"header:{scheme.header}", "body"]
        case SharedToken():
            return ["url"] if scheme.place.startswith("query:") else [scheme.place]
        case BasicAuth():
            return ["header:Authorization"]
        case SignedFields():
            return ["body"]
        case _:
            return [f"header:{scheme.header}", *beside(scheme), *placeholders(scheme)]


def beside(scheme: object) -> list[str]:
    """The other headers without which a signature says nothing."""
    timestamp, only_if = getattr(scheme, "timestamp", None), getattr(scheme, "only_if", None)
    names = [timestamp, None if only_if is None else only_if[0]]
    return [f"header:{name}" for name in names if name is not None]


def placeholders(scheme: object) -> list[str]:
    """What a template names, but for the timestamp, which is wherever it is."""
    content = getattr(scheme, "content", None)
    if isinstance(content, UrlAndForm):
        return ["url", "body"]
    found = re.findall(r"\{([^{}]*)\}", getattr(content, "text", ""))
    return [name for name in found if name != "timestamp"]


def part_of(arrival: Arrival, part: str) -> bytes:
    """The bytes of a part."""
    kind, _, name = part.partition(":")
    match kind:
        case "body":
            return arrival.body
        case "header":
            return bytes(arrival.headers[spelled(arrival, name)].encode("latin-1"))
        case _:
            text: str = getattr(arrival, kind)
            return text.encode()


def with_part(arrival: Arrival, part: str, raw: bytes) -> Arrival:
    """The same arrival but for one part."""
    kind, _, name = part.partition(":")
    match kind:
        case "body":
            return replace(arrival, body=raw)
        case "header":
            changed = {spelled(arrival, name): raw.decode("latin-1")}
            return replace(arrival, headers={**arrival.headers, **changed})
        case "url":
            return replace(arrival, url=raw.decode("utf-8", "surrogateescape"))
        case _:
            return replace(arrival, method=raw.decode("latin-1"))


def spelled(arrival: Arrival, name: str) -> str:
    """The name of a header as this arrival writes it."""
    found: str = next(one for one in arrival.headers if one.lower() == name.lower())
    return found


def flipped(raw: bytes, bit: int) -> bytes:
    """The bytes with one bit changed."""
    changed = bytearray(raw)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def every_flip(raw: bytes) -> Iterator[bytes]:
    return (flipped(raw, bit) for bit in range(len(raw) * 8))
