"""The record of a new event: all that is written about it, chosen before the first statement.

Nothing here comes from the database and nothing is decided by it, so a new event can be written
alone or with many others, once or again after a rollback.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from duly.core.clock import from_microseconds, to_microseconds
from duly.core.keys import (
    Key,
    as_bytes,
    digest,
    length_prefixed,
    length_prefixed_scope,
    readable_text,
)
from duly.inbox.event import Event, parse_nothing
from duly.jobs.enqueue import job_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.core.session import Value
    from duly.inbox.route import Route
    from duly.jobs.enqueue import EventJob
    from duly.jobs.handlers import Handler
    from duly.webhooks.event_fields import EventFields, VerifiedDelivery
    from duly.webhooks.receive_plan import PlannedFields

EVENT = length_prefixed(b"event")
TYPE_LENGTH: Final = 500
REMOTE_LENGTH: Final = 100
# JSON's own spelling of a text, without the way round through a whole document.
quote_json = json.encoder.encode_basestring_ascii


class Status(StrEnum):
    """What became of an event, as a reply says it."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    IGNORED = "ignored"
    TOO_OLD = "too_old"


class Flag(StrEnum):
    """What a row of the events says beside the fields; empty where there is nothing to say."""

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
    status: Status  # what it becomes if it is new
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
    reason: str = ""  # why it is parked, for its sender and the log
    # For an inline source: what runs in the transaction that writes the event.
    handlers: tuple[Handler, ...] = ()
    event: Event | None = None

    @property
    def token(self) -> bytes:
        """The token of its claims: no other delivery has it."""
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
        """The parameters of its row, which has its first delivery in it."""
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
            "outcome": self.status.value,
            "secret": self.secret,
            "remote": self.remote,
        }


class EventOutcome(NamedTuple):
    """What became of a new event; ``body_differs`` tells of a duplicate and is no error."""

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


def audit_key(event: NewEvent, *more: bytes) -> Key:
    """The key under which the body of a conflict is stored once, however often it is sent."""
    parts = (b"conflict", as_bytes(event.scope), event.fingerprint, *more)
    return Key(event.scope, digest(*parts), event.key_text)


def build_new_events(
    route: Route, verified: VerifiedDelivery, tenant: str | None, remote: str | None, now: float
) -> list[NewEvent]:
    """Build the record of every event of a verified delivery; ``now`` is seconds since 1970."""
    source, host = route.source, route.registries.jobs.host
    scope = source.name if tenant is None else route.scope(tenant)
    headers, batch = stored_headers(route, verified), verified.provider.items is not None
    built: list[NewEvent] = []
    for fields in verified.events:
        reason = too_old_reason(route, verified, fields, now)
        guard = fields.replay_key if source.replayed_body == "conflict" else None
        digest = event_digest(scope, fields.id)
        replay = None if guard is None else event_digest(scope, guard)
        body = body_of_item(verified, fields) if batch else verified.body
        try:
            time = None if fields.time is None else to_microseconds(fields.time.astimezone(UTC))
        except OverflowError:  # beyond the calendar, seen from Greenwich
            time = None
        identifier = host.new_id()
        key_text = readable_text(as_bytes(fields.id))
        event_type = fields.type
        if event_type and not (event_type.isprintable() and len(event_type) <= TYPE_LENGTH):
            event_type = readable_text(as_bytes(event_type))  # which every store can take
        handlers = () if reason else route.handlers.matching(fields.type)
        status, flag, keep, bodies = Status.ACCEPTED, Flag.NONE, route.window, route.body_retention
        if reason:  # it waits for a person, who may take any time
            status, flag, keep, bodies = Status.TOO_OLD, Flag.TOO_OLD, None, None
        elif not handlers:
            status, flag = Status.IGNORED, Flag.IGNORED
        new = NewEvent(
            id=identifier,
            scope=scope,
            digest=digest,
            key_text=key_text,
            replay=replay,
            signed=fields.id_kind != "unsigned",
            source=source.name,
            event_id=fields.id,
            type=event_type,
            status=status,
            flag=flag,
            event_time=time,
            headers=headers,
            body=body,
            fingerprint=hashlib.sha256(body).digest(),
            ttl=keep,
            body_ttl=bodies,
            secret=verified.secret,
            remote=remote and remote[:REMOTE_LENGTH],
            jobs=() if route.inline else tuple([job_for(one, host) for one in handlers]),
            reason=reason,
        )
        if route.inline:
            event = inline_event(new, route, verified, fields, tenant, now)
            new = new._replace(handlers=handlers, event=event)
        built.append(new)
    return built


def build_planned_event(
    route: Route, fields: Mapping[bytes, bytes], body: bytes, remote: str | None, now: float
) -> NewEvent | None:
    """Verify a small delivery by the plan of its source, and build its record in the fewest steps.

    None where the plan leaves it to `verify_delivery`: then nothing is known about it.
    """
    planned = None if route.plan is None else route.plan(fields, body, now)
    if planned is None or is_before_window(route, planned, now):
        return None
    event_type = planned.type
    if event_type and not (event_type.isprintable() and len(event_type) <= TYPE_LENGTH):
        return None
    name, host = planned.id, route.registries.jobs.host
    replay = None
    if planned.replay_key is not None and route.source.replayed_body == "conflict":
        replay = event_digest(route.name, planned.replay_key)
    handlers = route.handlers.matching(event_type)
    kept = [
        f"{written}: {quote_json(value.decode('latin-1'))}"
        for header, written in route.written_headers
        if (value := fields.get(header))
    ]
    return NewEvent(
        host.new_id(),
        route.name,
        event_digest(route.name, name),
        readable_text(as_bytes(name)),
        replay,
        planned.signed,
        route.name,
        name,
        event_type,
        Status.ACCEPTED if handlers else Status.IGNORED,
        Flag.NONE if handlers else Flag.IGNORED,
        planned.time,
        f"{{{', '.join(kept)}}}".encode(),
        body,
        hashlib.sha256(body).digest(),
        route.window,
        route.body_retention,
        planned.secret,
        remote and remote[:REMOTE_LENGTH],
        tuple([job_for(one, host) for one in handlers]),
    )


def is_before_window(route: Route, planned: PlannedFields, now: float) -> bool:
    """Return True where `too_old_reason` must decide: a time is before the ledger's memory."""
    if route.window is None:
        return False
    oldest = now - route.window / 1_000_000
    if planned.sent is not None and planned.sent < oldest:
        return True
    return planned.time is not None and planned.time < oldest * 1_000_000


def body_of_item(verified: VerifiedDelivery, fields: EventFields) -> bytes:
    """The bytes of one item of a batch: the batch itself would be stored once for each item.

    The same item has the same bytes in every batch.
    """
    if fields.json is None or fields.json is verified.json:
        return verified.body
    return json.dumps(fields.json, separators=(",", ":")).encode()


def stored_headers(route: Route, verified: VerifiedDelivery) -> bytes:
    """The headers that are stored, as JSON."""
    delivery = verified.reader.delivery
    found: list[str] = []
    for name in route.headers:
        value = delivery.fields.get(name)
        if value.__class__ is not str and value is not None:
            value = delivery.header_text(name)  # bytes, or sent more than once
        if value:
            found.append(f"{quote_json(name)}: {quote_json(value)}")
    return f"{{{', '.join(found)}}}".encode()


def too_old_reason(
    route: Route, verified: VerifiedDelivery, fields: EventFields, now: float
) -> str:
    """Why an event from before the ledger's memory is parked; empty where it is not so old."""
    if route.window is None:
        return ""
    oldest = now - route.window / 1_000_000
    if verified.sent is not None and verified.sent < oldest:
        age = f"it was signed at {format_time(verified.sent_at)}"
    elif (
        fields.time is not None
        and fields.time.timestamp() < oldest
        and route.time_is_signed(verified.scheme)
    ):
        age = f"its event time is {format_time(fields.time)}"
    else:
        return ""
    memory = str(timedelta(microseconds=route.window)).removesuffix(", 0:00:00")
    return (
        f"{age}, and the ledger remembers {memory}: it is stored and not processed, because the "
        "ledger cannot tell whether it was handled before. To process it, raise window= of the "
        "source, `duly forget` the event and have it sent again"
    )


def format_time(moment: datetime | None) -> str:
    """A time, to the second."""
    try:
        return "out of range" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return "out of range"


def inline_event(  # all that a delivery says of it
    new: NewEvent,
    route: Route,
    verified: VerifiedDelivery,
    fields: EventFields,
    tenant: str | None,
    now: float,
) -> Event:
    """The event that an inline handler is given."""
    return Event(
        id=new.event_id,
        type=fields.type,
        source=new.source,
        tenant=tenant,
        body=new.body or b"",
        headers=json.loads(new.headers),
        form=tuple(verified.form),
        time=None if new.event_time is None else from_microseconds(new.event_time),
        received_at=datetime.fromtimestamp(now, UTC),
        parse=parse_nothing if fields.json is None else route.source.parse_json,
    )
