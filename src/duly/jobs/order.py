"""``order=``: which version of which resource an event or a job brings; stale ones are skipped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import UsageError
from duly.core.keys import Key, as_bytes, digest, readable_text
from duly.core.retry import Dead
from duly.ledger.arguments import version_advance

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.versions import Tie
    from duly.jobs.lease import LeasedJob
    from duly.ledger.arguments import VersionAdvance

MISSING = object()


class Order(NamedTuple):
    """Paths into the body: of the resource's name, and of its version."""

    resource: tuple[str, ...]
    version: tuple[str, ...]
    tie: Tie | None


def order_of(order: object, tie: object) -> Order | None:
    """Check ``order=`` and ``tie=`` of a handler."""
    if order is None:
        if tie is not None:
            raise UsageError("tie= says what to do with equal versions of order=: give both")
        return None
    if (
        not isinstance(order, tuple)
        or len(order) != 2
        or not all(isinstance(path, str) and path for path in order)
    ):
        raise UsageError(
            "order is two paths into the body of the event, or the payload of the job: of the "
            'resource and of its version: order=("data.object.id", "created")'
        )
    if tie not in (None, "apply", "skip"):
        raise UsageError("tie must be 'apply' or 'skip'")
    resource, version = (tuple(path.split(".")) for path in order)
    return Order(resource, version, tie)


def value_at(body: Any, path: tuple[str, ...]) -> Any:
    """The value at a path; a part that is a number is an index in a list."""
    for part in path:
        if isinstance(body, dict):
            body = body.get(part, MISSING)
        elif isinstance(body, list) and part.isdigit() and int(part) < len(body):
            body = body[int(part)]
        else:
            return MISSING
    return body


def version_of_event(order: Order, handler: str, scope: str, event: Any) -> VersionAdvance:
    """The version of its resource that an event brings; an event is never stale to itself."""
    resource, version = values_at(order, handler, event.json, "event")
    tie = order.tie
    if tie is None and isinstance(version, int) and seconds(event.time) == version:
        tie = "apply"  # whole seconds: two events of one second are both later than the others
    # The event by the name its sender gave it: the same after `forget`.
    token = digest(b"event", as_bytes(scope), as_bytes(event.id))[:16]
    return advance_of(handler, scope, resource, version, tie)._replace(token=token)


def version_of_payload(order: Order, handler: str, leased: LeasedJob) -> VersionAdvance:
    """The version of its resource that a plain job brings; a job is never stale to itself."""
    payload = None if leased.payload is None else json.loads(leased.payload)
    resource, version = values_at(order, handler, payload, "payload")
    token = digest(b"job", as_bytes(leased.scope), as_bytes(leased.id))[:16]
    return advance_of(handler, leased.scope, resource, version, order.tie)._replace(token=token)


def values_at(order: Order, handler: str, body: Any, what: str) -> tuple[str | int, str | int]:
    """The resource and the version in a body."""
    resource, version = value_at(body, order.resource), value_at(body, order.version)
    if not isinstance(resource, str | int) or isinstance(resource, bool):
        raise missing_path_error(handler, order.resource, what)
    if not isinstance(version, str | int) or isinstance(version, bool):
        raise missing_path_error(handler, order.version, what)
    return resource, version


def advance_of(
    handler: str, scope: str, resource: str | int, version: str | int, tie: Tie | None
) -> VersionAdvance:
    """The advance of one resource of one handler."""
    name = digest(b"order", as_bytes(scope), as_bytes(handler), as_bytes(str(resource)))
    key = Key(scope, name, readable_text(as_bytes(str(resource))))
    return version_advance(scope, str(resource), version, tie)._replace(resource=key)


def seconds(moment: datetime | None) -> float | None:
    """A time as a number, as senders write it."""
    return None if moment is None else moment.timestamp()


def missing_path_error(handler: str, path: tuple[str, ...], what: str) -> Dead:
    """The error of an event or a payload without the value that the handler is ordered by."""
    return Dead(
        f"handler {handler} is ordered by {'.'.join(path)!r}, and this {what} has no text or "
        "whole number there: correct order=, then replay it"
    )
