"""What the gate says of an arrival, read to the last property, and when it may say no."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.errors import Rejected
from duly.webhooks import (
    Code,
    EventFields,
    HandshakeReply,
    PlainDigest,
    SignedFields,
    Source,
    VerifiedDelivery,
)

if TYPE_CHECKING:
    from tests.webhooks.arena import Arrival, Case

PLAIN = (
    "id", "id_kind", "replay_key", "type", "time", "version", "json", "unreadable", "form", "body",
    "fingerprint", "headers", "sent_at", "events", "handshake", "secret", "provider",
)  # fmt: skip


def outcome(
    case: Case, arrival: Arrival, source: Source | None = None
) -> VerifiedDelivery | Rejected:
    """What the gate says, read to its last property; any other exception passes through."""
    try:
        verified = case.verify(arrival, source)
    except Rejected as problem:
        return sound(problem)
    read(verified)
    return verified


def sound(rejected: Rejected) -> Rejected:
    """A rejection that says what to answer and why."""
    assert isinstance(rejected.code, Code)
    assert 400 <= rejected.status <= 499
    assert str(rejected)
    return rejected


def read(verified: VerifiedDelivery) -> None:
    """Every property, and what must be true of it."""
    for name in PLAIN:
        getattr(verified, name)
    assert repr(verified)
    assert verified.unreadable is None or verified.json is None
    assert verified.handshake is None or isinstance(verified.handshake, HandshakeReply)
    assert verified.events
    for one in (verified.event, *verified.events):
        assert isinstance(one, EventFields)
        assert 1 <= len(one.id.encode()) <= 4096
        assert repr(one)
        json.dumps(one.json, allow_nan=False, ensure_ascii=False).encode()
        if one.id_kind != "body":
            assert not one.id.startswith("body_") or len(one.id) != 69 or not one.id.islower()


def excused(case: Case, arrival: Arrival) -> set[Code]:
    """Why a genuine delivery may be refused all the same."""
    codes = set()
    if case.provider.sent_at is not None:
        codes.add(Code.STALE_TIMESTAMP)  # the body itself says when it was sent
    if isinstance(case.scheme, PlainDigest) and not is_text(arrival.body):
        codes.add(Code.BAD_SIGNATURE)  # it could be the continuation of another body
    if isinstance(case.scheme, SignedFields) and case.scheme.signature[-4:].encode() not in (
        arrival.body
    ):
        codes |= {Code.MISSING_SIGNATURE, Code.MALFORMED}  # a batch of nothing
    return codes


def is_text(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False
