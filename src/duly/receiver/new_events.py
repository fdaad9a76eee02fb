"""From a genuine delivery to what the inbox writes: one arrival for each event in it."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from duly.core.clock import from_microseconds, to_microseconds
from duly.core.errors import UsageError
from duly.core.ids import new_id
from duly.core.keys import as_bytes, readable_text
from duly.core.validation import checked_scope, kind
from duly.inbox.event import Event
from duly.inbox.new_event import Flag, NewEvent, Status, event_digest
from duly.jobs.enqueue import job_for
from duly.receiver.responses import Fault, quote_json, refusal_error
from duly.receiver.too_old import is_too_old

if TYPE_CHECKING:
    from duly.inbox.route import Route
    from duly.jobs.handlers import Handler
    from duly.webhooks.event_fields import EventFields
    from duly.webhooks.verified import Verified

logger = logging.getLogger("duly")
TYPE_LENGTH = 500
REMOTE_LENGTH = 100


class RoutedDelivery(NamedTuple):
    """One request that is genuine: its route, what it says, whose it is, and where it came from."""

    route: Route
    verified: Verified
    tenant: str | None
    remote: str | None
    now: float  # seconds since 1970


def delivery_of(route: Route, verified: Verified, remote: str | None, now: float) -> RoutedDelivery:
    """Ask the user whose delivery it is, if they said how to tell."""
    tenant = None if route.tenant is None else resolve_tenant(route, verified)
    return RoutedDelivery(route, verified, tenant, remote and remote[:REMOTE_LENGTH], now)


def resolve_tenant(route: Route, verified: Verified) -> str:
    """What the user's function says; its failure is an error of ours to the sender."""
    try:
        assert route.tenant is not None  # noqa: S101  # asked by the caller
        tenant = route.tenant(verified)
        if not isinstance(tenant, str) or not tenant:
            raise UsageError(f"tenant= must return a string that is not empty, not {kind(tenant)}")
        checked_scope(route.scope(tenant))
    except Exception as problem:
        logger.exception("the tenant of a delivery to %s could not be told", route.name)
        raise refusal_error(
            Fault.TENANT_FAILED, "the receiver could not tell whose this is"
        ) from problem
    return tenant


def new_events_of(delivery: RoutedDelivery) -> list[NewEvent]:
    """Every event of a delivery, as it will be written."""
    verified = delivery.verified
    if verified.provider.items is None:
        return [new_event(delivery, verified.items[0], verified.body)]
    return [new_event(delivery, facts, body_of(verified, facts)) for facts in verified.items]


def body_of(verified: Verified, facts: EventFields) -> bytes:
    """The bytes of one item of a batch: the batch itself would be stored once for each item.

    The same item has the same bytes whatever it came with.
    """
    if facts.json is None or facts.json is verified.json:
        return verified.body
    return json.dumps(facts.json, separators=(",", ":")).encode()


def new_event(delivery: RoutedDelivery, facts: EventFields, body: bytes) -> NewEvent:
    """One event, complete."""
    route, verified = delivery.route, delivery.verified
    scope = route.scope(delivery.tenant)
    handlers: tuple[Handler, ...] = route.handlers.matching(facts.type)
    status, flag, keep, bodies = Status.ACCEPTED, Flag.NONE, route.window, route.body_retention
    if is_too_old(delivery, facts):
        # It waits for a person, who may take any time.
        status, flag, keep, bodies, handlers = Status.TOO_OLD, Flag.TOO_OLD, None, None, ()
    elif not handlers:
        status, flag = Status.IGNORED, Flag.IGNORED
    guard = facts.replay_key if route.source.replayed_body == "conflict" else None
    return NewEvent(
        id=new_id(),
        scope=scope,
        digest=event_digest(scope, facts.id),
        key_text=readable_text(as_bytes(facts.id)),
        replay=None if guard is None else event_digest(scope, guard),
        signed=facts.id_kind != "unsigned",
        source=route.name,
        event_id=facts.id,
        type=storable(facts.type),
        status=status,
        flag=flag,
        event_time=event_time(facts.time),
        headers=headers_to_store(route, verified),
        body=body,
        fingerprint=hashlib.sha256(body).digest(),
        ttl=keep,
        body_ttl=bodies,
        secret=verified.secret,
        remote=delivery.remote,
        jobs=() if route.inline else tuple(map(job_for, handlers)),
    )


def storable(event_type: str | None) -> str | None:
    """A type that every store can take: most are as they are, the rest is made readable."""
    if event_type is None or (event_type.isprintable() and len(event_type) <= TYPE_LENGTH):
        return event_type
    return readable_text(as_bytes(event_type))


def event_time(moment: datetime | None) -> int | None:
    """When it happened, where that is a time that every store can give back."""
    try:
        return None if moment is None else to_microseconds(moment.astimezone(UTC))
    except OverflowError:  # beyond the calendar, seen from Greenwich
        return None


def headers_to_store(route: Route, verified: Verified) -> bytes:
    """The headers that are stored, as JSON."""
    text = verified.header
    found = [
        f"{quote_json(name)}: {quote_json(value)}"
        for name in route.headers
        if (value := text(name)) is not None
    ]
    return f"{{{', '.join(found)}}}".encode()


def event_of(delivery: RoutedDelivery, written: NewEvent, facts: EventFields) -> Event:
    """The event as its handler sees it."""
    return Event(
        id=written.event_id,
        type=facts.type,
        source=written.source,
        tenant=delivery.tenant,
        body=written.body or b"",
        headers=json.loads(written.headers),
        json=facts.json,
        form=tuple(delivery.verified.form),
        time=None if written.event_time is None else from_microseconds(written.event_time),
        received_at=datetime.fromtimestamp(delivery.now, UTC),
    )
