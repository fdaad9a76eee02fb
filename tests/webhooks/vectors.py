"""Deliveries with a known outcome, from the tests and pages of the senders, as data.

One object of ``vectors.json`` is one delivery: what was sent, the key it is checked with, the
moment, and either ``verified`` or the code it must be rejected with. ``source`` says where the
values were published; where ``published`` is false, the signature was computed from the documented
scheme, without duly, because the place gives everything but the signature.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duly
from duly.webhooks import Provider, Source, VerifiedDelivery

VERIFIED: Final = "verified"


@dataclass(frozen=True, slots=True)
class Vector:
    """One delivery and what must come of it."""

    name: str
    provider: str
    key: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    now: float
    expected: str
    source: str
    published: bool
    shelf: bool = True
    private: str | None = None
    method: str = "POST"
    url: str | None = None
    any_age: bool = False

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def vector_of(case: dict[str, Any]) -> Vector:
    """A vector from its JSON; a body that is no text is in base64."""
    raw = case.pop("base64", None)
    body = case.pop("body", "").encode() if raw is None else base64.b64decode(raw)
    headers = tuple((name, value) for name, value in case.pop("headers"))
    any_age = case.pop("tolerance", "the provider's") is None
    return Vector(headers=headers, body=body, any_age=any_age, **case)


VECTORS: Final = tuple(
    vector_of(case)
    for case in json.loads(Path(__file__).with_name("vectors.json").read_text("utf-8"))
)
SHELF: Final = tuple(vector for vector in VECTORS if vector.shelf)
OWN: Final = tuple(vector for vector in VECTORS if not vector.shelf)


def checked(vector: Vector, provider: str | Provider) -> VerifiedDelivery:
    """What the gate makes of a vector's delivery."""
    return duly.verify(
        Source(provider, vector.key, tolerance=None if vector.any_age else "provider"),
        vector.headers,
        vector.body,
        now=vector.now,
        url=vector.url,
        method=vector.method,
    )


def outcome(vector: Vector, provider: str | Provider) -> str:
    """``verified``, or the code of the rejection."""
    try:
        checked(vector, provider)
    except duly.errors.Rejected as problem:
        return problem.code.name
    return VERIFIED
