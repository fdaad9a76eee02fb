"""Which version of which resource an event speaks of: handlers that declare it see no stale one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import UsageError
from duly.core.keys import Key, as_bytes, digest, readable_text
from duly.core.retry import Dead
from duly.ledger.arguments import version_advance

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.versions import Tie
    from duly.jobs.handlers import Handler
    from duly.jobs.lease import LeasedJob
    from duly.ledger.arguments import VersionAdvance

MISSING = object()


class Order(NamedTuple):
    """Paths into the body: of what names the resource, and of what orders its versions."""

    resource: tuple[str, ...]
    version: tuple[str, ...]
    tie: Tie | None


def order_of(order: object, tie: object) -> Order | None:
    """Check what a handler declares."""
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
    """What stands at a path; a part that is a number counts in a list."""
    for part in path:
        if isinstance(body, dict):
            body = body.get(part, MISSING)
        elif isinstance(body, list) and part.isdigit() and int(part) < len(body):
            body = body[int(part)]
        else:
            return MISSING
    return body


def order_question(handler: Handler, leased: LeasedJob, event: Any) -> VersionAdvance | None:
    """The question to the order guard; an event is never stale to itself."""
    order = handler.order
    if order is None:
        return None
    resource, version = value_at(event.json, order.resource), value_at(event.json, order.version)
    if not isinstance(resource, str | int) or isinstance(resource, bool):
        raise missing_path_error(handler, order.resource)
    if not isinstance(version, str | int) or isinstance(version, bool):
        raise missing_path_error(handler, order.version)
    tie = order.tie
    if tie is None and isinstance(version, int) and seconds(event.time) == version:
        tie = "apply"  # whole seconds: two events of one second are both later than the others
    question = version_advance(leased.scope, str(resource), version, tie)
    name = digest(b"order", as_bytes(leased.scope), as_bytes(handler.name), as_bytes(str(resource)))
    key = Key(leased.scope, name, readable_text(as_bytes(str(resource))))
    # The event by the name its sender gave it: the same after `forget`.
    token = digest(b"event", as_bytes(leased.scope), as_bytes(event.id))[:16]
    return question._replace(resource=key, token=token)


def seconds(moment: datetime | None) -> float | None:
    """A time as a number, as senders write it."""
    return None if moment is None else moment.timestamp()


def missing_path_error(handler: Handler, path: tuple[str, ...]) -> Dead:
    """The event will never say more than it does."""
    return Dead(
        f"handler {handler.name} is ordered by {'.'.join(path)!r}, and this event has no text or "
        "whole number there: correct order=, then replay it"
    )
