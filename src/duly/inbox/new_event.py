"""An event as it arrived: everything that is written about it, chosen before the first statement.

Nothing here comes from the database and nothing is decided by it, so an arrival can be written
alone or with many others, once or again after a rollback.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.core.keys import (
    Key,
    as_bytes,
    digest,
    length_prefixed,
    length_prefixed_scope,
    readable_text,
)

if TYPE_CHECKING:
    from duly.core.session import Value
    from duly.jobs.enqueue import EventJob

EVENT = length_prefixed(b"event")


class Status(StrEnum):
    """What became of an event, as a reply says it."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    IGNORED = "ignored"
    TOO_OLD = "too_old"


class Flag(StrEnum):
    """What a row of the events says beside the facts; empty where there is nothing to say."""

    NONE = ""
    IGNORED = "ignored"
    TOO_OLD = "too_old"
    CONFLICT = "conflict"
    REPLAYED_BODY = "conflict replayed_body"
    FORGOTTEN = "forgotten"


class NewEvent(NamedTuple):
    """One event of one delivery. Times are in microseconds; a ttl of None is for ever."""

    id: str
    scope: str
    digest: bytes
    key_text: str
    replay: bytes | None  # the second key, where the id is not signed
    signed: bool  # whether the id can be believed
    source: str
    event_id: str
    type: str | None
    status: Status  # what it is if nobody had it before
    flag: Flag
    event_time: int | None
    headers: bytes
    body: bytes | None  # None where it is kept with another
    fingerprint: bytes
    ttl: int | None
    body_ttl: int | None
    secret: str | None
    remote: str | None
    jobs: tuple[EventJob, ...]

    @property
    def token(self) -> bytes:
        """Who makes the claim: this arrival, and no other."""
        return bytes.fromhex(self.id.replace("-", ""))

    @property
    def key(self) -> Key:
        """The key by which the ledger knows the event."""
        return Key(self.scope, self.digest, self.key_text)

    @property
    def replay_key(self) -> Key | None:
        """The key by which the ledger knows the body."""
        return None if self.replay is None else Key(self.scope, self.replay, self.key_text)

    def row(self) -> dict[str, Value]:
        """The parameters of its row."""
        return {
            "id": self.id,
            "scope": self.scope,
            "digest": self.digest,
            "replay": self.replay,
            "source": self.source,
            "event_id": self.event_id,
            "type": self.type,
            "flags": self.flag.value,
            "event_time": self.event_time,
            "headers": self.headers,
            "body": self.body,
            "fingerprint": self.fingerprint,
            "body_ttl": self.body_ttl,
            "ttl": self.ttl,
        }


class EventOutcome(NamedTuple):
    """What became of an arrival; ``body_differs`` is a fact about a duplicate, not an error."""

    status: Status
    body_differs: bool = False


def event_digest(scope: str, key: str) -> bytes:
    """The ledger's digest of an event.

    Not the one of the user's own ``dedup`` with the same scope and key: a handler that asks the
    ledger about the event it handles must not find the inbox's claim.
    """
    return hashlib.sha256(
        EVENT + length_prefixed_scope(scope) + length_prefixed(as_bytes(key))
    ).digest()


def event_key(scope: str, event_id: str) -> Key:
    """The key of an event by the name its sender gave it."""
    return Key(scope, event_digest(scope, event_id), readable_text(as_bytes(event_id)))


def audit_key(arrival: NewEvent, *more: bytes) -> Key:
    """The key under which the body of a conflict is stored once, however often it is sent."""
    parts = (b"conflict", as_bytes(arrival.scope), arrival.fingerprint, *more)
    return Key(arrival.scope, digest(*parts), arrival.key_text)
