"""``order=``: which version of which resource an event brings, so that stale ones are skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import UsageError
from duly.core.keys import Key, as_bytes, digest, readable_text
from duly.core.retry import Dead
from duly.ledger.arguments import version_advance

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.versions import Tie
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
            "order is two paths into the body, of the resource and of its version: "
            'order=("data.object.id", "created")'
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
    resource, version = value_at(event.json, order.resource), value_at(event.json, order.version)
    if not isinstance(resource, str | int) or isinstance(resource, bool):
        raise missing_path_error(handler, order.resource)
    if not isinstance(version, str | int) or isinstance(version, bool):
        raise missing_path_error(handler, order.version)
    tie = order.tie
    if tie is None and isinstance(version, int) and seconds(event.time) == version:
        tie = "apply"  # whole seconds: two events of one second are both later than the others
    name = digest(b"order", as_bytes(scope), as_bytes(handler), as_bytes(str(resource)))
    key = Key(scope, name, readable_text(as_bytes(str(resource))))
    # The event by the name its sender gave it: the same after `forget`.
    token = digest(b"event", as_bytes(scope), as_bytes(event.id))[:16]
    advance = version_advance(scope, str(resource), version, tie)
    return advance._replace(resource=key, token=token)


def seconds(moment: datetime | None) -> float | None:
    """A time as a number, as senders write it."""
    return None if moment is None else moment.timestamp()


def missing_path_error(handler: str, path: tuple[str, ...]) -> Dead:
    """The error of an event without the value that the handler is ordered by."""
    return Dead(
        f"handler {handler} is ordered by {'.'.join(path)!r}, and this event has no text or "
        "whole number there: correct order=, then replay it"
    )
